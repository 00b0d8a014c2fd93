//! Interactions that are known and have not been asked for yet.

use crate::interaction::Interaction;

/// Asked for one by one; or all at once, by exchanging the memory that they are written to: whoever passes blocks of them on moves none.
#[derive(Debug, Default)]
pub struct Ahead {
    pub interactions: Vec<Interaction>,
    given: usize,
}

impl Ahead {
    #[inline]
    pub fn next(&mut self) -> Option<Interaction> {
        match self.interactions.get(self.given) {
            Some(&interaction) => {
                self.given += 1;
                Some(interaction)
            }
            None => {
                self.interactions.clear();
                self.given = 0;
                None
            }
        }
    }
}
