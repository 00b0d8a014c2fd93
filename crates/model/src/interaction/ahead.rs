//! Interactions that are known and have not been read yet.

use crate::interaction::Interaction;

/// A buffer of interactions. They are read one by one with [`Ahead::take_first`], or all at once by
/// exchanging `interactions` with another vector, so that passing on blocks copies nothing.
#[derive(Debug, Default)]
pub struct Ahead {
    pub interactions: Vec<Interaction>,
    read: usize,
}

impl Ahead {
    #[inline]
    pub fn take_first(&mut self) -> Option<Interaction> {
        match self.interactions.get(self.read) {
            Some(&interaction) => {
                self.read += 1;
                Some(interaction)
            }
            None => {
                self.interactions.clear();
                self.read = 0;
                None
            }
        }
    }
}
