//! One frame.

use headcount_contract::{ChildState, HealthStatus, LiveState, Outcome};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use super::app::{App, Mode};
use super::model::{ChildRow, Model, Need, Placed, StateFilter};
use super::table::{self, Columns};
use crate::text::{fit, visible};

/// How the frame looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    /// Without colour, states still differ by word and mark.
    pub(crate) colour: bool,
}

impl Theme {
    pub(crate) fn of(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(crate) fn dim() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The colour of a child's state, and a mark for eyes that skim.
    pub(crate) fn state(self, row: &ChildRow) -> (Style, &'static str) {
        match (row.need(), row.state) {
            (Need::Stale, _) => (self.of(Color::Magenta), "?"),
            (_, ChildState::Live(LiveState::Waiting)) => {
                (self.of(Color::Yellow).add_modifier(Modifier::BOLD), "▲")
            }
            (_, ChildState::Live(LiveState::Running)) => (self.of(Color::Green), "●"),
            (_, ChildState::Live(LiveState::Starting)) => (self.of(Color::Cyan), "◌"),
            (_, ChildState::Live(LiveState::Created)) => (self.of(Color::Cyan), "○"),
            (_, ChildState::Terminal(Outcome::Failed)) => (self.of(Color::Red), "✗"),
            (_, ChildState::Terminal(Outcome::Lost)) => (self.of(Color::Red), "∅"),
            (Need::Failed, _) => (self.of(Color::Yellow), "?"),
            (_, ChildState::Terminal(Outcome::Completed)) => (Self::dim(), "✓"),
            (_, ChildState::Terminal(Outcome::Cancelled)) => (Self::dim(), "■"),
        }
    }
}

/// The least height at which the details of a child are shown below the table.
const DETAILS_FROM: u16 = 16;

/// Draws one frame. `facts` explains the selected child.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    app: &mut App,
    model: &Model,
    facts: &[Fact],
    theme: Theme,
) {
    let details = app.details && frame.area().height >= DETAILS_FROM && app.selected.is_some();
    let below = if details {
        frame.area().height * 2 / 5
    } else {
        0
    };
    let complaints = complaints(model, frame.area(), theme);
    let [header, body, lower, above, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(below),
        Constraint::Length(u16::try_from(complaints.len()).unwrap_or(0)),
        Constraint::Length(1),
    ])
    .areas(frame.area());

    let placed = model.placed(&app.filter);
    frame.render_widget(summary(model, header.width, theme), header);
    draw_table(frame, body, app, model, &placed, theme);
    if details {
        draw_details(frame, lower, app, facts);
    }
    frame.render_widget(Paragraph::new(complaints), above);
    frame.render_widget(footer_line(app, footer.width, theme), footer);
    if app.mode == Mode::Help {
        draw_help(frame);
    }
}

/// One thing that is known of a child, and how.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Which event or snapshot set it, and when.
    pub(crate) basis: String,
}

fn summary(model: &Model, width: u16, theme: Theme) -> Line<'static> {
    let mut spans = vec![Span::styled(
        " headcount ",
        Style::new().add_modifier(Modifier::BOLD),
    )];
    let counts = [
        (Need::Waiting, "waiting", theme.of(Color::Yellow)),
        (Need::Stale, "stale", theme.of(Color::Magenta)),
        (Need::Failed, "failed", theme.of(Color::Red)),
        (Need::Live, "live", theme.of(Color::Green)),
        (Need::Ended, "ended", Theme::dim()),
    ];
    for (need, word, style) in counts {
        let count = model.count(|n| n == need);
        if count > 0 {
            spans.push(Span::styled(format!(" {count} {word} "), style));
        }
    }
    if model.children.is_empty() {
        spans.push(Span::styled(" no children yet", Theme::dim()));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let mut health = adapters(model, theme);
    let wanted: usize = health.iter().map(Span::width).sum();
    if used + wanted + 1 > usize::from(width) {
        // Too narrow for all: the sick ones only.
        health = adapters(
            &Model {
                adapters: sick(model),
                ..model.clone()
            },
            theme,
        );
    }
    let wanted: usize = health.iter().map(Span::width).sum();
    if used + wanted < usize::from(width) {
        spans.push(Span::raw(" ".repeat(usize::from(width) - used - wanted)));
        spans.extend(health);
    }
    Line::from(spans)
}

fn sick(model: &Model) -> Vec<super::model::AdapterRow> {
    let sick = |status| matches!(status, HealthStatus::Degraded | HealthStatus::Down);
    model
        .adapters
        .iter()
        .filter(|a| sick(a.status))
        .cloned()
        .collect()
}

/// What adapters that are not well say, where there is room for it.
fn complaints(model: &Model, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let most = if area.height < DETAILS_FROM { 0 } else { 3 };
    sick(model)
        .into_iter()
        .filter_map(|adapter| Some((adapter.source, adapter.message?)))
        .take(most)
        .map(|(source, message)| {
            let text = format!(" {}: {}", visible(&source), visible(&message));
            let text = fit(&text, usize::from(area.width)).into_owned();
            Line::styled(text, theme.of(Color::Yellow))
        })
        .collect()
}

fn adapters(model: &Model, theme: Theme) -> Vec<Span<'static>> {
    model
        .adapters
        .iter()
        .map(|adapter| {
            let (style, mark) = match adapter.status {
                HealthStatus::Healthy => (theme.of(Color::Green), "●"),
                HealthStatus::Degraded => (theme.of(Color::Yellow), "▲"),
                HealthStatus::Down => (theme.of(Color::Red), "✗"),
                _ => (Theme::dim(), "○"),
            };
            let name = fit(&visible(&adapter.source), 16).into_owned();
            let word = match adapter.status {
                HealthStatus::Healthy | HealthStatus::Idle => String::new(),
                status => format!(" {status}"),
            };
            Span::styled(format!("{mark} {name}{word} "), style)
        })
        .collect()
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &mut App,
    model: &Model,
    placed: &[Placed<'_>],
    theme: Theme,
) {
    let columns = Columns::of(area.width);
    let [titles, rows] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(columns.titles().style(Theme::dim()), titles);
    let height = usize::from(rows.height);
    let chosen = placed
        .iter()
        .position(|p| Some(&p.row.key) == app.selected.as_ref());
    app.top = scrolled(app.top, chosen.unwrap_or(0), height, placed.len());
    let lines: Vec<Line<'_>> = placed
        .iter()
        .enumerate()
        .skip(app.top)
        .take(height)
        .map(|(at, placed)| {
            let line = table::row(placed, &columns, model.now, theme);
            if Some(at) == chosen {
                line.style(Style::new().add_modifier(Modifier::REVERSED))
            } else {
                line
            }
        })
        .collect();
    if lines.is_empty() && !model.children.is_empty() {
        let nothing = Line::styled("  nothing passes the filter; Esc clears it", Theme::dim());
        frame.render_widget(nothing, rows);
        return;
    }
    frame.render_widget(Paragraph::new(lines), rows);
}

/// The first row to show so that the chosen one is seen.
fn scrolled(top: usize, chosen: usize, height: usize, rows: usize) -> usize {
    let top = top.min(rows.saturating_sub(height)).min(chosen);
    top.max((chosen + 1).saturating_sub(height))
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, app: &mut App, facts: &[Fact]) {
    let title = app.selected.as_ref().map(|(source, child)| {
        format!(
            " {} of {} ",
            visible(child.as_str()),
            visible(source.as_str())
        )
    });
    let block = Block::new()
        .borders(Borders::TOP)
        .title(title.unwrap_or_default())
        .border_style(Theme::dim());
    let name_width = facts
        .iter()
        .map(|f| f.name.len())
        .max()
        .unwrap_or(0)
        .min(18);
    let lines: Vec<Line<'_>> = facts
        .iter()
        .map(|fact| {
            Line::from(vec![
                Span::styled(
                    format!(" {:name_width$}  ", fit(&fact.name, 18)),
                    Theme::dim(),
                ),
                Span::raw(visible(&fact.value)),
                Span::styled(format!("   {}", visible(&fact.basis)), Theme::dim()),
            ])
        })
        .collect();
    let room = area.height.saturating_sub(1);
    let most = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_sub(room);
    app.scroll = app.scroll.min(most);
    frame.render_widget(
        Paragraph::new(lines).block(block).scroll((app.scroll, 0)),
        area,
    );
}

/// Keys, unless there is something to say: a question, or an answer.
fn footer_line(app: &App, width: u16, theme: Theme) -> Line<'static> {
    let text = match &app.mode {
        Mode::Filter => format!(
            " filter: {}▏  Enter keeps it, Esc clears it",
            visible(&app.filter.text)
        ),
        Mode::Confirm((_, child)) => {
            format!(
                " Cancel {}? y cancels it, any other key does not",
                visible(child.as_str())
            )
        }
        Mode::Table | Mode::Help => match &app.notice {
            _ if app.stopping => " stopping the children… q again kills them now".to_owned(),
            Some(notice) => format!(" {}", visible(notice)),
            None => keys(app),
        },
    };
    let calm =
        matches!(app.mode, Mode::Table | Mode::Help) && app.notice.is_none() && !app.stopping;
    let style = if calm {
        Theme::dim()
    } else {
        theme.of(Color::Yellow)
    };
    Line::styled(fit(&text, usize::from(width)).into_owned(), style)
}

fn keys(app: &App) -> String {
    let mut filter = String::new();
    if app.filter.states != StateFilter::All {
        filter = format!(" [{}]", app.filter.states.as_str());
    }
    if !app.filter.text.is_empty() {
        filter = format!("{filter} [{}]", visible(&app.filter.text));
    }
    format!("{filter} ↑↓ select  / filter  s states  c cancel  d details  ? help  q quit")
}

fn draw_help(frame: &mut Frame<'_>) {
    // What matters most comes first: a small terminal shows the beginning.
    const HELP: &str = "\x20↑ ↓ k j       select a child
 d, Enter      details of the selected child
 c             cancel the selected child (asks first)
 q, Ctrl-C     stop owned children and leave;
               twice: kill them now
 /             filter by text
 s             show all, needing you, live, ended
 Esc           clear the filter
 [ ]           scroll the details
 g G           the first, the last
 Ctrl-Z        into the background

 ▲ waiting   ? stale or in doubt   ✗ failed   ∅ lost
 ● running   ◌ starting   ○ created, observed
 ✓ completed   ■ cancelled";
    let area = frame.area();
    let (width, height) = (56.min(area.width), 18.min(area.height));
    let popup = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, popup);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(
        Paragraph::new(HELP).wrap(Wrap { trim: false }).block(block),
        popup,
    );
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{at, row};
    use super::super::model::{AdapterRow, ChildRow, Doubt};
    use super::*;
    use headcount_contract::Usage;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn fleet() -> Model {
        let usage = |cpu, mb: u64| Some(Usage::new(cpu, mb * 1_000_000, 3));
        let says = |text: &str, second| Some((text.to_owned(), at(second)));
        let adapter = |source: &str, status, message: Option<&str>| AdapterRow {
            source: source.into(),
            status,
            message: message.map(str::to_owned),
        };
        let children = vec![
            ChildRow {
                activity: says("reading crates/contract/src/lib.rs", 55),
                last_line: Some("\u{1b}[32m   Compiling\u{1b}[0m headcount".into()),
                usage: usage(187.4, 412),
                since: at(-3600),
                ..row("build", None, ChildState::RUNNING)
            },
            ChildRow {
                activity: says("terminal: rm -rf target", 10),
                since: at(10),
                ..row("sa-0-1f3c9a2b", Some("orchestrator"), ChildState::WAITING)
            },
            ChildRow {
                since: at(-200),
                ..row("orchestrator", None, ChildState::RUNNING)
            },
            ChildRow {
                doubt: Some(Doubt::Stale),
                activity: says("ウィキを読んでいる", -700),
                since: at(-800),
                ..row("リサーチ担当", Some("orchestrator"), ChildState::RUNNING)
            },
            ChildRow {
                last_line: Some("\u{1b}]0;owned\u{7}\u{1b}[2Jnot today".into()),
                since: at(-30),
                ..row("hostile\u{202e}", None, ChildState::FAILED)
            },
            ChildRow {
                external: true,
                can_cancel: false,
                ..row("pid-4242", None, ChildState::CREATED)
            },
            ChildRow {
                doubt: Some(Doubt::Suspect),
                since: at(40),
                ..row("asked", None, ChildState::COMPLETED)
            },
            ChildRow {
                attempt: 2,
                since: at(50),
                ..row("server", None, ChildState::STARTING)
            },
            row("done", None, ChildState::COMPLETED),
        ];
        let adapters = vec![
            adapter("local", HealthStatus::Healthy, None),
            adapter(
                "hermes",
                HealthStatus::Degraded,
                Some("reconnecting, attempt 3"),
            ),
        ];
        Model {
            now: at(60),
            children,
            adapters,
        }
    }

    fn facts() -> Vec<Fact> {
        let fact = |name: &str, value: &str, basis: &str| Fact {
            name: name.into(),
            value: value.into(),
            basis: basis.into(),
        };
        vec![
            fact("state", "waiting", "event e-17 at 09:15:30, seen 50s ago"),
            fact("parent", "orchestrator", "event e-3 at 09:10:02"),
        ]
    }

    fn frame(width: u16, height: u16, app: &mut App, model: &Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        app.settle(model);
        terminal
            .draw(|f| draw(f, app, model, &facts(), Theme { colour: true }))
            .unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_usual_terminal() {
        insta::assert_snapshot!(frame(80, 24, &mut App::new(), &fleet()));
    }

    #[test]
    fn a_small_terminal() {
        insta::assert_snapshot!(frame(40, 10, &mut App::new(), &fleet()));
    }

    #[test]
    fn a_large_terminal() {
        insta::assert_snapshot!(frame(200, 60, &mut App::new(), &fleet()));
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (2, 1), (5, 2), (10, 3), (39, 5)] {
            for mode in [Mode::Table, Mode::Filter, Mode::Help] {
                frame(width, height, &mut App { mode, ..App::new() }, &fleet());
            }
        }
    }

    #[test]
    fn an_empty_table_says_so() {
        let model = Model {
            now: at(0),
            children: vec![],
            adapters: vec![],
        };
        insta::assert_snapshot!(frame(60, 4, &mut App::new(), &model));
    }

    #[test]
    fn a_question_before_a_cancel() {
        let mut app = App::new();
        app.settle(&fleet());
        app.mode = Mode::Confirm(app.selected.clone().unwrap());
        insta::assert_snapshot!(frame(60, 6, &mut app, &fleet()).lines().last().unwrap());
    }

    #[test]
    fn the_help() {
        insta::assert_snapshot!(frame(
            80,
            24,
            &mut App {
                mode: Mode::Help,
                ..App::new()
            },
            &fleet()
        ));
    }

    #[test]
    fn without_colour_no_cell_has_one() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let (mut app, model) = (App::new(), fleet());
        app.settle(&model);
        terminal
            .draw(|f| draw(f, &mut app, &model, &facts(), Theme { colour: false }))
            .unwrap();
        let coloured = terminal
            .backend()
            .buffer()
            .content()
            .iter()
            .filter(|c| c.fg != Color::Reset);
        assert_eq!(coloured.count(), 0);
    }

    #[test]
    fn the_chosen_row_is_always_in_sight() {
        for (top, chosen, height, rows, first) in [
            (0, 0, 5, 20, 0),
            (0, 7, 5, 20, 3),
            (10, 2, 5, 20, 2),
            (18, 19, 5, 20, 15),
            (3, 1, 5, 3, 0),
            (0, 0, 0, 3, 1),
        ] {
            assert_eq!(
                scrolled(top, chosen, height, rows),
                first,
                "{top} {chosen} {height} {rows}"
            );
        }
    }
}
