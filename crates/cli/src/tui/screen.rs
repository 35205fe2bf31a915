//! The terminal: taken, given back whatever happens, and put aside while we are suspended.

use std::io::{self, IsTerminal};

use ratatui::DefaultTerminal;

use super::draw::Theme;
use crate::exit::Failure;

/// The whole terminal, until dropped.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) terminal: DefaultTerminal,
    pub(super) theme: Theme,
}

impl Screen {
    /// Takes the terminal. A panic gives it back before it is printed.
    pub(super) fn take() -> Result<Self, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::usage(
                "--output tui needs a terminal to draw on and to read keys from",
            )
            .help("--output plain or --output json"));
        }
        let terminal = ratatui::try_init().map_err(|error| {
            Failure::ours(format_args!("the terminal cannot be taken: {error}"))
        })?;
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self {
            terminal,
            theme: Theme { colour },
        })
    }

    /// Gives the terminal back, stops this process as the terminal's own Ctrl-Z would, and takes it
    /// again when the process goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        ratatui::try_restore()?;
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        self.terminal = ratatui::try_init()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone, which is why we end; there is nobody to tell.
        let _ = ratatui::try_restore();
    }
}
