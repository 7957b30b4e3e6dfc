//! Views on the terminal, one after another, until somebody has seen enough.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::screen::draw;
use crate::view::TopView;

/// Why a live view ended before anybody wanted it to.
#[derive(Debug, thiserror::Error)]
pub enum LiveError<E: std::error::Error + 'static> {
    /// The terminal does not take part.
    #[error("the terminal: {0}; `tailbound top --once` needs none")]
    Terminal(#[from] io::Error),
    /// There is nothing to show.
    #[error(transparent)]
    View(E),
}

/// The terminal as it was before, whatever happens meanwhile.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows views until `q`, Escape or Ctrl-C: each for `interval`, or until a key is pressed or the size changes.
///
/// # Errors
/// If the terminal fails, or there is no further view.
pub fn live<E: std::error::Error + 'static>(
    interval: Duration,
    mut next: impl FnMut() -> Result<TopView, E>,
) -> Result<(), LiveError<E>> {
    let mut view = next().map_err(LiveError::View)?;
    let mut terminal = ratatui::try_init()?;
    let _restored = Restored;
    loop {
        terminal.draw(|frame| draw(frame, &view))?;
        if event::poll(interval)? && ends(&event::read()?) {
            return Ok(());
        }
        view = next().map_err(LiveError::View)?;
    }
}

fn ends(event: &Event) -> bool {
    match event {
        Event::Key(KeyEvent {
            kind: KeyEventKind::Release,
            ..
        }) => false,
        Event::Key(key) => match key.code {
            KeyCode::Char('q') | KeyCode::Esc => true,
            KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_end_it_and_nothing_else() {
        let key = |code, modifiers| ends(&Event::Key(KeyEvent::new(code, modifiers)));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!key(KeyCode::Enter, KeyModifiers::NONE));
        assert!(!ends(&Event::Resize(80, 24)));
    }
}
