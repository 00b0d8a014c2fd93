//! The screen of `longpole top`: takes periods and keys, and draws after each.

use super::draw;
use super::source::{Source, Update};
use super::terminal::Screen;
use super::view::{Action, View};
use crate::render::table::plain;
use anyhow::Context;
use longpole_analysis::live::order::Order;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::time::{Duration, Instant};

/// Longest time between two looks for periods.
const LOOK: Duration = Duration::from_millis(50);

/// What is shown at first, and when the command ends.
pub struct Shown {
    pub order: Order,
    pub filter: String,
    /// Only threads of this process.
    pub pid: Option<i32>,
    pub end: Option<Instant>,
    pub count: Option<u64>,
}

/// Shows the system until the user quits, or the end.
pub fn run(source: &Source, shown: Shown) -> anyhow::Result<()> {
    let mut view = View::new(&shown);
    let mut screen = Screen::take().context("cannot draw on this terminal; --batch prints text")?;
    let (mut periods, mut page) = (0, 1);
    let mut is_changed = true;
    loop {
        if is_changed {
            screen.terminal.draw(|frame| page = draw::draw(frame.buffer_mut(), &view))?;
        }
        is_changed = false;
        while let Some(update) = source.next(Duration::ZERO) {
            is_changed = true;
            match update {
                Update::Begun(sources) => view.sources = Some(sources),
                Update::Period(period) => {
                    periods += 1;
                    view.add(*period);
                }
                Update::Note(note) => view.note = Some(plain(note)),
                Update::Failed(error) => return Err(error),
                Update::Ended => return Ok(()),
            }
        }
        let is_over = shown.end.is_some_and(|end| Instant::now() >= end) || shown.count.is_some_and(|count| periods >= count);
        if is_over {
            return Ok(());
        }
        if is_gone()? {
            return Ok(());
        }
        if event::poll(Duration::ZERO)? {
            is_changed = true;
            let action = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => view.key(key, page),
                _ => Action::Draw,
            };
            match action {
                Action::Draw => {}
                Action::Quit => return Ok(()),
                Action::Suspend => screen.suspend()?,
            }
        }
    }
}

/// Waits for a key, for [`LOOK`] at most. Returns true if the terminal is gone. Reading from such a
/// terminal would never end.
fn is_gone() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let longest = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    match poll(&mut polled, Some(&longest)) {
        Ok(_) => Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        // A signal, such as the one for another size of the terminal.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
