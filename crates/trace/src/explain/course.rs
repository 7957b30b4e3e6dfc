//! The course of a slow request, piece by piece or, where there are too many pieces, in cells of time.

use tailbound_time::Duration;

use super::cause::{PartId, PartTable};
use super::explanation::CourseStretch;
use super::split::PartStretch;

/// As many stretches as a course has piece by piece.
const MOST_STRETCHES: usize = 400;
/// Cells of a course with more.
const CELLS: u64 = 60;

/// The course of a request that was intended to be sent at `intended`; whether it is in cells. A cell's stretches are in
/// no order of time: each part has the sum of what it had in the cell.
pub(crate) fn course(
    stretches: &[PartStretch],
    intended: u64,
    table: &PartTable,
) -> (Vec<CourseStretch>, bool) {
    let named = |stretch: &PartStretch| {
        let (cause, detail) = table.part(stretch.part);
        CourseStretch {
            cause,
            detail: detail.to_string(),
            start: Duration::from_nanos(stretch.start.saturating_sub(intended)),
            length: Duration::from_nanos(stretch.end - stretch.start),
        }
    };
    if stretches.len() <= MOST_STRETCHES {
        return (stretches.iter().map(named).collect(), false);
    }
    (in_cells(stretches).iter().map(named).collect(), true)
}

fn in_cells(stretches: &[PartStretch]) -> Vec<PartStretch> {
    let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else {
        return Vec::new();
    };
    let length = (last.end - first.start).div_ceil(CELLS).max(1);
    let mut cells = Vec::new();
    let mut place = 0;
    for start in (first.start..last.end).step_by(length as usize) {
        let end = (start + length).min(last.end);
        let mut sums: Vec<(PartId, u64)> = Vec::new();
        while let Some(stretch) = stretches.get(place).filter(|stretch| stretch.start < end) {
            let shared = stretch.end.min(end) - stretch.start.max(start);
            match sums.iter_mut().find(|(part, _)| *part == stretch.part) {
                Some((_, sum)) => *sum += shared,
                None => sums.push((stretch.part, shared)),
            }
            if stretch.end > end {
                break;
            }
            place += 1;
        }
        let mut at = start;
        for (part, sum) in sums {
            cells.push(PartStretch {
                start: at,
                end: at + sum,
                part,
            });
            at += sum;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::cause::LatencyCause;
    use super::*;

    #[test]
    fn cells_hold_as_much_of_each_part_as_the_pieces() {
        let mut table = PartTable::default();
        let parts = [
            LatencyCause::Execution,
            LatencyCause::Interrupt,
            LatencyCause::Preempted,
        ]
        .map(|cause| table.number(cause, ""));
        let mut stretches = Vec::new();
        let mut at = 1_000;
        for step in 0..2_000_u64 {
            let end = at + 1 + step % 7;
            let part = parts[(step % 3) as usize];
            stretches.push(PartStretch {
                start: at,
                end,
                part,
            });
            at = end;
        }
        let (course, in_cells) = course(&stretches, 1_000, &table);
        assert!(in_cells && course.len() <= CELLS as usize * 3);
        for (part, cause) in parts.iter().zip([
            LatencyCause::Execution,
            LatencyCause::Interrupt,
            LatencyCause::Preempted,
        ]) {
            let pieces = stretches.iter().filter(|one| one.part == *part);
            let pieces: u64 = pieces.map(|one| one.end - one.start).sum();
            let cells = course.iter().filter(|one| one.cause == cause);
            assert_eq!(cells.map(|one| one.length.as_nanos()).sum::<u64>(), pieces);
        }
        let ends = course.windows(2).all(|pair| {
            pair[0].start.as_nanos() + pair[0].length.as_nanos() == pair[1].start.as_nanos()
        });
        assert!(ends);
    }
}
