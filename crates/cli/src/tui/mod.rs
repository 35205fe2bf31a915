//! The live table.

mod app;
mod draw;
mod model;
mod screen;
mod source;
mod table;

use std::time::{Duration, SystemTime};

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use headcount::{Host, View};
use headcount_contract::CancelOutcome;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use self::app::{App, Request};
use self::model::Key;
use self::screen::Screen;
use crate::commands::live::Session;
use crate::exit::Failure;

/// Between two frames. The table never waits for the host, nor the host for the table.
const FRAME: Duration = Duration::from_millis(100);

/// Shows the host on the terminal until it ends.
pub(crate) async fn show(session: &mut Session<'_>) -> Result<(), Failure> {
    let mut screen = Screen::take()?;
    let mut app = App::new();
    let mut keys = EventStream::new();
    let (tell, mut told) = mpsc::channel(8);
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let host = session.host.clone();
    let until = session.until();
    let mut over = Box::pin(Session::over(&host, until));
    loop {
        let model = source::model(&host.view(), SystemTime::now().into());
        app.settle(&model);
        let facts = source::facts(&host, app.selected.as_ref(), model.now);
        let theme = screen.theme;
        screen
            .terminal
            .draw(|frame| draw::draw(frame, &mut app, &model, &facts, theme))?;
        let stopping = session.is_stopping();
        tokio::select! {
            _ = frames.tick() => {
                if host.view().is_stopped() {
                    return Ok(());
                }
            }
            notice = told.recv() => app.notice = notice,
            _ = &mut over, if !stopping => session.stop(),
            () = session.interrupts.next() => {
                app.stopping = true;
                session.stop();
            }
            key = keys.next() => match key {
                Some(Ok(Event::Key(key))) => match app.on_key(key, &model) {
                    Some(Request::Quit | Request::Kill) => {
                                session.stop();
                    }
                    Some(Request::Suspend) => screen.suspend()?,
                    Some(Request::Cancel(key)) => cancel(&host, key, tell.clone()),
                    None => {}
                },
                Some(Ok(_)) => {}
                // The terminal has gone.
                Some(Err(_)) | None => return Ok(()),
            },
        }
    }
}

/// Asks in the background; what the source answers becomes a notice.
fn cancel(host: &std::sync::Arc<Host>, (source, child): Key, tell: mpsc::Sender<String>) {
    let host = host.clone();
    tokio::spawn(async move {
        let reason = Some("asked for at the terminal");
        let notice = match host.cancel(&source, &child, reason).await {
            Ok(CancelOutcome::Accepted) => {
                format!("{source} accepted the request to cancel {child}")
            }
            Ok(CancelOutcome::AlreadyEnded) => format!("{child} had ended before"),
            Ok(CancelOutcome::UnknownChild) => format!("{source} does not know {child}"),
            Ok(CancelOutcome::Denied { reason }) => format!("{source} refused: {reason}"),
            Ok(_) => format!("{source} cannot cancel"),
            Err(error) => error.to_string(),
        };
        // The table may have gone meanwhile.
        let _ = tell.send(notice).await;
    });
}

/// What is said once the terminal is given back.
pub(crate) fn farewell(view: &View) -> Vec<String> {
    source::farewell(view)
}
