//! How well instants of the kernel's events compare with instants that programs read.

use std::fs::File;
use std::io::{self, Read, Write};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::tracefs::TraceInstance;
use tailbound_time::{Clock, Duration, Instant};
use tailbound_trace::kernel::{EventLayout, LONGEST_PAGE, PageEvents, page_bytes};
use tailbound_trace::recording::ClockError;

/// How many marks are written.
const MARKS: usize = 64;
/// The beginning of a mark's text.
const MARK: &str = "tailbound clock ";

/// Writes marks into an instance that records nothing else, each between two readings of the clock, and compares
/// them with the events that they become.
///
/// # Errors
/// What the kernel says.
pub(crate) fn check_clock(
    instance: &TraceInstance,
    pages: &mut [(u32, File)],
) -> io::Result<ClockError> {
    let layout = instance.read("events/ftrace/print/format")?;
    let layout = EventLayout::parse(&layout).map_err(io::Error::other)?;
    instance.write("tracing_on", "1")?;
    let mut marker = instance.open_marker()?;
    let mut readings = Vec::with_capacity(MARKS);
    for index in 0..MARKS {
        let text = format!("{MARK}{index}\n");
        let before = Monotonic.now();
        marker.write_all(text.as_bytes())?;
        readings.push((before, Monotonic.now()));
    }
    instance.write("tracing_on", "0")?;
    let mut marks = Vec::new();
    let mut page = vec![0; LONGEST_PAGE];
    for (_, file) in pages {
        while let Some(length) = read_page(file, &mut page)? {
            marks.extend(marks_of(&page[..length], &layout));
        }
    }
    instance.write("trace", "")?;
    Ok(compare(&readings, &marks))
}

/// The next page of a buffer, its carrying bytes alone; `None` where nothing is left.
///
/// # Errors
/// What the kernel says.
pub(crate) fn read_page(file: &mut File, page: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match file.read(page) {
            Ok(0) => return Ok(None),
            Ok(count) => {
                let length = page_bytes(&page[..count]).map_err(io::Error::other)?;
                return Ok(Some(length));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The numbers of the marks in a page, with their instants.
fn marks_of(page: &[u8], layout: &EventLayout) -> Vec<(usize, Instant)> {
    let (Ok(mut events), Some(text)) = (PageEvents::of(page), layout.field("buf")) else {
        return Vec::new();
    };
    let mut marks = Vec::new();
    while let Ok(Some(event)) = events.next_event() {
        let text = event.bytes.get(text.offset..).unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let number = text.strip_prefix(MARK).and_then(|rest| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        });
        marks.extend(number.map(|number| (number, event.at)));
    }
    marks
}

fn compare(readings: &[(Instant, Instant)], marks: &[(usize, Instant)]) -> ClockError {
    let mut error = ClockError {
        samples: 0,
        bound: Duration::ZERO,
        outside: 0,
    };
    for (number, at) in marks {
        let Some((before, after)) = readings.get(*number) else {
            continue;
        };
        error.samples += 1;
        error.outside += u64::from(at < before || at > after);
        let widest = [
            after.saturating_since(*before),
            before.saturating_since(*at),
            at.saturating_since(*after),
        ];
        error.bound = widest.into_iter().fold(error.bound, Duration::max);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_outside_of_its_readings_widens_the_error() {
        let at = |nanos: u64| Instant::from_nanos(nanos);
        let readings = [(at(100), at(180)), (at(300), at(350))];
        let error = compare(&readings, &[(0, at(140)), (1, at(310))]);
        assert_eq!((error.samples, error.outside), (2, 0));
        assert_eq!(error.bound, Duration::from_nanos(80));
        let error = compare(&readings, &[(0, at(500)), (7, at(1))]);
        assert_eq!((error.samples, error.outside), (1, 1));
        assert_eq!(error.bound, Duration::from_nanos(320));
    }
}
