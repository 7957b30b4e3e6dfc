//! A view on a screen, and as lines.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use tailbound_time::Duration;

use crate::view::{ReservationRow, TopView};

/// The columns of [`cells`].
pub const HEADER: [&str; 9] = [
    "domain",
    "back end",
    "CPUs",
    "budget",
    "period",
    "used",
    "depleted",
    "overrun p99",
    "state",
];

/// How many blocks a whole budget is.
const BLOCKS: usize = 10;

/// A row as text, under [`HEADER`].
pub fn cells(row: &ReservationRow) -> Vec<String> {
    let depletions = row.depletions.zip(row.depletions_total);
    vec![
        row.domain.clone(),
        row.backend.clone(),
        row.cpus.clone(),
        row.budget_ns.to_string(),
        row.period_ns.to_string(),
        row.use_share
            .map_or_else(unknown, |share| format!("{:.0}%", share * 100.0)),
        depletions.map_or_else(unknown, |(new, total)| format!("+{new} of {total}")),
        length(row.overrun_p99_ns),
        row.state.clone(),
    ]
}

fn unknown() -> String {
    "-".to_owned()
}

fn length(length: Option<Duration>) -> String {
    length.map_or_else(unknown, |length| length.to_string())
}

/// What is said below the reservations: noise, what guards them, and what subsystems say.
pub fn lines(view: &TopView) -> Vec<String> {
    if view.reservations.is_empty() {
        return view.subsystems.clone();
    }
    let noise = &view.noise;
    let mut lines = vec![format!(
        "noise: managers up to {} late (p99), {} replenishments missed, {} periods stalled, {} held by throttling",
        length(noise.lateness_p99_ns),
        noise.skipped,
        noise.stalled,
        noise.held_ns,
    )];
    if !view.guarded {
        lines.push("no watchdog guards these reservations at the moment".to_owned());
    }
    lines.extend(view.subsystems.iter().cloned());
    lines
}

/// A budget as blocks, the used ones full.
fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BLOCKS as f64).round() as usize;
    "\u{2588}".repeat(full) + &"\u{2591}".repeat(BLOCKS - full)
}

/// Draws a view onto a whole screen.
pub fn draw(frame: &mut Frame<'_>, view: &TopView) {
    let lines = lines(view);
    let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let areas = [
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(below),
        Constraint::Length(1),
    ];
    let [title, middle, about, keys] = Layout::vertical(areas).areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let text = format!(
        "tailbound: {} reservations in force",
        view.reservations.len()
    );
    frame.render_widget(Line::styled(text, bold), title);
    frame.render_widget(table(view).header(header(bold)), middle);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), about);
    frame.render_widget(Line::from("q ends"), keys);
}

fn header(style: Style) -> Row<'static> {
    Row::new(HEADER).style(style)
}

fn table(view: &TopView) -> Table<'static> {
    let rows = view.reservations.iter().map(|row| {
        let mut cells = cells(row);
        if let Some(share) = row.use_share {
            cells[5] = format!("{} {}", bar(share), cells[5]);
        }
        let is_short = row.depletions.is_some_and(|count| count > 0);
        let style = match is_short {
            true => Style::new().add_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        Row::new(cells.into_iter().map(Cell::from)).style(style)
    });
    let widths = [16, 10, 6, 8, 8, 16, 14, 12, 30];
    Table::new(rows, widths.map(Constraint::Max))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::view::tests::sample;

    fn screen(view: &TopView, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let rows = rows.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n")
    }

    #[test]
    fn a_screen_has_the_reservations_the_noise_and_the_modes() {
        let view = TopView::of(Some(&sample(100, 100, 5)), &sample(200, 400, 45));
        let expected = "\
tailbound: 1 reservations in force
domain     back end   CPUs   budget   period   used           depleted       overrun p99  state
worker     ds-freeze  1      4ms      10ms     ████████░░ 75% +40 of 45      50us         in force


noise: managers up to 30us late (p99), 1 replenishments missed, 0 periods stalled, 0ns held by throttling
mode run of rest, run
q ends";
        assert_eq!(screen(&view, 120, 8), expected);
    }

    #[test]
    fn a_small_screen_still_shows_how_to_end() {
        let view = TopView::of(None, &sample(1, 1, 0));
        // A terminal that is about to be closed has no size.
        assert_eq!(screen(&view, 1, 1).lines().count(), 1);
        assert!(screen(&view, 40, 5).ends_with("q ends"));
    }

    #[test]
    fn a_bar_is_never_longer_than_a_budget() {
        assert_eq!(bar(0.0), "░".repeat(10));
        assert_eq!(bar(0.5), "█".repeat(5) + &"░".repeat(5));
        assert_eq!(bar(7.0), "█".repeat(10));
    }
}
