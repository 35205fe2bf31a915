//! What the person has chosen, and what a key does.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::{Filter, Key, Model};

/// What a key asks the host to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Leave; owned children are stopped first.
    Quit,
    /// Leave now; owned children are killed.
    Kill,
    /// Cancel this child.
    Cancel(Key),
    /// Put the program into the background, as the terminal would.
    Suspend,
}

/// What the keys go to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// Typing the text filter.
    Filter,
    /// Asking whether to cancel this child.
    Confirm(Key),
    /// Showing what the keys do.
    Help,
}

/// The person's side of the table.
#[derive(Debug, Default)]
pub(crate) struct App {
    pub(crate) filter: Filter,
    pub(crate) mode: Mode,
    pub(crate) selected: Option<Key>,
    pub(crate) details: bool,
    /// How far the details are scrolled.
    pub(crate) scroll: u16,
    /// The first row shown.
    pub(crate) top: usize,
    /// One sentence about the last request.
    pub(crate) notice: Option<String>,
    /// The host is stopping its children.
    pub(crate) stopping: bool,
}

impl App {
    pub(crate) fn new() -> Self {
        Self {
            details: true,
            ..Self::default()
        }
    }

    /// What the key asks of the host, if anything.
    pub(crate) fn on_key(&mut self, key: KeyEvent, model: &Model) -> Option<Request> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(self.quit()),
                KeyCode::Char('z') => return Some(Request::Suspend),
                _ => {}
            }
        }
        match &self.mode {
            Mode::Table => self.on_table_key(key, model),
            Mode::Filter => {
                self.on_filter_key(key);
                None
            }
            Mode::Confirm(child) => {
                let child = child.clone();
                self.mode = Mode::Table;
                let agreed = matches!(key.code, KeyCode::Char('y' | 'Y'));
                agreed.then_some(Request::Cancel(child))
            }
            Mode::Help => {
                self.mode = Mode::Table;
                None
            }
        }
    }

    fn quit(&mut self) -> Request {
        let request = if self.stopping {
            Request::Kill
        } else {
            Request::Quit
        };
        self.stopping = true;
        request
    }

    fn on_table_key(&mut self, key: KeyEvent, model: &Model) -> Option<Request> {
        match key.code {
            KeyCode::Char('q') => return Some(self.quit()),
            KeyCode::Down | KeyCode::Char('j') => self.step(model, 1),
            KeyCode::Up | KeyCode::Char('k') => self.step(model, -1),
            KeyCode::PageDown => self.step(model, 10),
            KeyCode::PageUp => self.step(model, -10),
            KeyCode::Home | KeyCode::Char('g') => self.step(model, isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(model, isize::MAX),
            KeyCode::Enter | KeyCode::Char('d') => self.details = !self.details,
            KeyCode::Char(']') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Char('[') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => self.filter.states = self.filter.states.next(),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Esc => {
                self.filter = Filter::default();
                self.notice = None;
            }
            KeyCode::Char('c') => self.ask_to_cancel(model),
            _ => {}
        }
        None
    }

    fn on_filter_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.filter.text.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Backspace => {
                self.filter.text.pop();
            }
            KeyCode::Char(c) if self.filter.text.len() < 200 => self.filter.text.push(c),
            _ => {}
        }
    }

    fn ask_to_cancel(&mut self, model: &Model) {
        let chosen = model
            .children
            .iter()
            .find(|row| Some(&row.key) == self.selected.as_ref());
        match chosen {
            None => {}
            Some(row) if row.state.is_terminal() => {
                self.notice = Some(format!("{} has ended", row.key.1));
            }
            Some(row) if !row.can_cancel => {
                let source = &row.key.0;
                self.notice = Some(format!(
                    "{source} has not verified that it can cancel {}",
                    row.key.1
                ));
            }
            Some(row) => self.mode = Mode::Confirm(row.key.clone()),
        }
    }

    /// Moves the selection by rows as they are shown.
    fn step(&mut self, model: &Model, by: isize) {
        let placed = model.placed(&self.filter);
        if placed.is_empty() {
            self.selected = None;
            return;
        }
        let here = placed
            .iter()
            .position(|p| Some(&p.row.key) == self.selected.as_ref());
        let last = placed.len() - 1;
        let next = here.map_or(0, |here| here.saturating_add_signed(by).min(last));
        self.selected = Some(placed[next].row.key.clone());
        self.scroll = 0;
    }

    /// Selects the first row if the chosen one is not shown (any more).
    pub(crate) fn settle(&mut self, model: &Model) {
        let placed = model.placed(&self.filter);
        if !placed
            .iter()
            .any(|p| Some(&p.row.key) == self.selected.as_ref())
        {
            self.selected = placed.first().map(|p| p.row.key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{at, row};
    use super::super::model::{ChildRow, StateFilter};
    use super::*;
    use headcount_contract::ChildState;

    fn model() -> Model {
        let locked = ChildRow {
            can_cancel: false,
            ..row("locked", None, ChildState::RUNNING)
        };
        let children = vec![
            row("a", None, ChildState::WAITING),
            locked,
            row("z", None, ChildState::COMPLETED),
        ];
        Model {
            now: at(60),
            children,
            adapters: vec![],
        }
    }

    fn press(app: &mut App, keys: &str) -> Vec<Request> {
        let model = model();
        app.settle(&model);
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        keys.chars()
            .filter_map(|c| app.on_key(KeyEvent::from(code(c)), &model))
            .collect()
    }

    fn selected(app: &App) -> &str {
        app.selected.as_ref().unwrap().1.as_str()
    }

    #[test]
    fn the_selection_moves_and_stays_within_the_table() {
        let mut app = App::new();
        press(&mut app, "jjjjj");
        assert_eq!(selected(&app), "z");
        press(&mut app, "kg");
        assert_eq!(selected(&app), "a");
    }

    #[test]
    fn cancelling_asks_first() {
        let mut app = App::new();
        assert_eq!(press(&mut app, "cn"), []);
        let key = app.selected.clone().unwrap();
        assert_eq!(press(&mut app, "cy"), [Request::Cancel(key)]);
    }

    #[test]
    fn there_is_no_cancelling_without_authority_or_after_the_end() {
        let mut app = App::new();
        assert_eq!(press(&mut app, "jcy"), []);
        assert_eq!(
            app.notice.take().unwrap(),
            "s has not verified that it can cancel locked"
        );
        assert_eq!(press(&mut app, "jcy"), []);
        assert_eq!(app.notice.unwrap(), "z has ended");
    }

    #[test]
    fn a_filter_is_typed_and_escape_ends_it() {
        let mut app = App::new();
        press(&mut app, "/lockq\n");
        assert_eq!(app.filter.text, "lockq");
        press(&mut app, "s");
        assert_eq!(app.filter.states, StateFilter::Needy);
        press(&mut app, "\u{1b}");
        assert_eq!(
            (app.filter.text.as_str(), app.filter.states),
            ("", StateFilter::All)
        );
    }

    #[test]
    fn the_second_quit_kills() {
        let mut app = App::new();
        assert_eq!(press(&mut app, "qq"), [Request::Quit, Request::Kill]);
    }
}
