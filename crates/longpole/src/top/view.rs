//! The state of the screen: the last periods, what is shown of them, and what each key does.

use super::screen::Shown;
use super::source::Sources;
use longpole_analysis::live::history::History;
use longpole_analysis::live::order::{self, Order};
use longpole_analysis::live::{Period, ThreadUse};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Number of periods whose shares are drawn.
pub const HISTORY: usize = 64;

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Draw,
    Quit,
    Suspend,
}

/// What is on the screen.
pub struct View {
    pub sources: Option<Sources>,
    pub history: History,
    pub period: Option<Period>,
    pub order: Order,
    pub filter: String,
    /// True while keys change the filter.
    pub edits_filter: bool,
    pub is_paused: bool,
    pub shows_help: bool,
    /// First thread that is shown.
    pub first: usize,
    /// Newest message.
    pub note: Option<String>,
    /// Number of periods that were not analysed.
    pub skipped: u64,
    pid: Option<i32>,
}

impl View {
    pub fn new(shown: &Shown) -> View {
        View {
            sources: None,
            history: History::new(HISTORY),
            period: None,
            order: shown.order,
            filter: shown.filter.clone(),
            edits_filter: false,
            is_paused: false,
            shows_help: false,
            first: 0,
            note: None,
            skipped: 0,
            pid: shown.pid,
        }
    }

    /// Takes up a period. While the view is paused, only its history grows.
    pub fn add(&mut self, period: Period) {
        self.history.push(&period);
        self.skipped += period.skipped;
        if !self.is_paused {
            self.period = Some(period);
        }
    }

    /// The threads to be shown, in order.
    pub fn threads(&self) -> Vec<ThreadUse> {
        let all = self.period.iter().flat_map(|period| &period.threads);
        let is_shown = |thread: &&ThreadUse| self.pid.is_none_or(|pid| thread.pid == Some(pid)) && order::is_selected(thread, &self.filter);
        let mut threads: Vec<ThreadUse> = all.filter(is_shown).cloned().collect();
        order::sort(&mut threads, self.order);
        threads
    }

    /// Carries out a key. `page`: number of threads on the screen.
    pub fn key(&mut self, key: KeyEvent, page: usize) -> Action {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if with_control => return Action::Quit,
            KeyCode::Char('z') if with_control => return Action::Suspend,
            _ if self.shows_help => self.shows_help = false,
            code if self.edits_filter => self.edit_filter(code),
            code => return self.command(code, page),
        }
        Action::Draw
    }

    fn edit_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.edits_filter = false,
            KeyCode::Esc => {
                self.edits_filter = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) => self.filter.push(character),
            _ => {}
        }
        self.first = 0;
    }

    fn command(&mut self, code: KeyCode, page: usize) -> Action {
        let last = self.threads().len().saturating_sub(1);
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('s') => self.sort_by(self.order.next()),
            KeyCode::Char('r') => self.sort_by(Order::Running),
            KeyCode::Char('w') => self.sort_by(Order::Runnable),
            KeyCode::Char('b') => self.sort_by(Order::Blocked),
            KeyCode::Char('c') => self.sort_by(Order::Calls),
            KeyCode::Char('n') => self.sort_by(Order::Name),
            KeyCode::Char('t') => self.sort_by(Order::Tid),
            KeyCode::Char('/') => self.edits_filter = true,
            KeyCode::Esc => {
                self.filter.clear();
                self.first = 0;
            }
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Down | KeyCode::Char('j') => self.first = (self.first + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first = (self.first + page).min(last),
            KeyCode::PageUp => self.first = self.first.saturating_sub(page),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = (last + 1).saturating_sub(page),
            _ => {}
        }
        Action::Draw
    }

    fn sort_by(&mut self, order: Order) {
        self.order = order;
        self.first = 0;
    }
}

/// The keys, as the help lists them.
pub const KEYS: [(&str, &str); 10] = [
    ("q, Ctrl-C", "quit"),
    ("s", "sort by the next column"),
    ("r w b c n t", "sort by running, runnable (w), blocked, calls, name, tid"),
    ("/", "filter: part of a thread's or process's name, or a number; Enter keeps it"),
    ("Esc", "show all threads again"),
    ("space, p", "pause; the history continues"),
    ("up, down, j, k", "scroll by one thread"),
    ("PgUp, PgDn", "scroll by a page; Home, End: to the first, last thread"),
    ("Ctrl-Z", "suspend"),
    ("?, h", "this help; any key leaves it"),
];
