//! The rows of the table, in columns that fit the terminal.

use headcount_contract::Timestamp;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::draw::Theme;
use super::model::{ChildRow, Placed};
use crate::text::{fit, plain, run_name, visible};
use crate::value;

/// How wide each column is; zero where there is no room for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    name: usize,
    state: usize,
    age: usize,
    activity: usize,
    output: usize,
    cpu: usize,
    memory: usize,
}

impl Columns {
    /// The columns for a terminal of this width: the name and the state always, then age, what the
    /// child does, its processor and memory, its last line.
    pub(crate) fn of(width: u16) -> Self {
        let width = usize::from(width);
        let mut columns = Self {
            name: (width / 5).clamp(10, 32),
            state: if width < 60 {
                12
            } else if width < 100 {
                15
            } else {
                18
            },
            age: 4,
            activity: 0,
            output: 0,
            cpu: if width < 70 { 0 } else { 5 },
            memory: if width < 70 { 0 } else { 9 },
        };
        // Each column is followed by a space, and the mark takes two.
        let used = columns.name + columns.state + columns.age + columns.cpu + columns.memory + 8;
        let rest = width.saturating_sub(used);
        if width < 100 {
            columns.activity = rest;
        } else {
            columns.activity = rest / 2;
            columns.output = rest - columns.activity - 1;
        }
        columns
    }

    pub(crate) fn titles(&self) -> Line<'static> {
        let mut spans = vec![Span::raw("  ")];
        let mut title = |text: &str, width: usize| {
            if width > 0 {
                spans.push(Span::raw(pad(text, width)));
            }
        };
        title("CHILD", self.name);
        title("STATE", self.state);
        title(" AGE", self.age);
        title(
            if self.output > 0 {
                "ACTIVITY"
            } else {
                "ACTIVITY OR LAST LINE"
            },
            self.activity,
        );
        title("LAST LINE", self.output);
        title("  CPU", self.cpu);
        title("   MEMORY", self.memory);
        Line::from(spans)
    }
}

/// One child as a line.
pub(crate) fn row<'a>(
    placed: &Placed<'a>,
    columns: &Columns,
    now: Timestamp,
    theme: Theme,
) -> Line<'a> {
    let row = placed.row;
    let (style, mark) = theme.state(row);
    let mut spans = vec![Span::styled(format!("{mark} "), style)];
    let mut cell = |text: &str, width: usize, style: Style| {
        if width > 0 {
            spans.push(Span::styled(pad(text, width), style));
        }
    };
    cell(&name(placed), columns.name, Style::new());
    cell(&row.state_words(), columns.state, style);
    let age = value::brief(now.saturating_since(row.since));
    cell(&format!("{age:>4}"), columns.age, Theme::dim());
    let line = row.last_line.as_deref().map(plain).unwrap_or_default();
    match activity(row, now) {
        Some(activity) => cell(&activity, columns.activity, Style::new()),
        None if columns.output == 0 => cell(&line, columns.activity, Theme::dim()),
        None => cell("", columns.activity, Style::new()),
    }
    cell(&line, columns.output, Theme::dim());
    let usage = row.usage.filter(|_| !row.state.is_terminal());
    let cpu = usage
        .map(|u| format!("{:>4.0}%", u.cpu_percent))
        .unwrap_or_default();
    cell(&cpu, columns.cpu, Theme::dim());
    let memory = usage
        .map(|u| format!("{:>9}", value::bytes(u.memory_bytes)))
        .unwrap_or_default();
    cell(&memory, columns.memory, Theme::dim());
    Line::from(spans)
}

fn name(placed: &Placed<'_>) -> String {
    // A deep tree must not push the name out of its column.
    let indent = match placed.depth {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat((depth - 1).min(4))),
    };
    let attempt = match placed.row.attempt {
        0 => String::new(),
        attempt => format!(" ×{}", attempt.saturating_add(1)),
    };
    format!(
        "{indent}{}{attempt}",
        visible(run_name(placed.row.key.1.as_str()))
    )
}

/// What it does, and for how long there has been no news of it.
fn activity(row: &ChildRow, now: Timestamp) -> Option<String> {
    let (text, at) = row.activity.as_ref()?;
    let age = now.saturating_since(*at);
    let text = visible(text);
    if row.state.is_terminal() || age.as_secs() < 5 {
        return Some(text.into_owned());
    }
    Some(format!("{text} ({} ago)", value::brief(age)))
}

/// The text in exactly `width` columns, and a space.
fn pad(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let missing = width.saturating_sub(text.width());
    format!("{text}{} ", " ".repeat(missing))
}
