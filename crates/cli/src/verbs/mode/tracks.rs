//! A change as tracks of slices and instants, for a trace and for a picture.

use tailbound_modes::change_phases::{ChangePhase, PhaseKind, change_phases};
use tailbound_modes::manager::Report;
use tailbound_simulator::traces::{TimelineMark, TimelineSlice, TimelineTrack};
use tailbound_time::{Duration, Instant};

/// What a slice is called from the acceptance of a reservation to the instant from which on it holds.
const PENDING: &str = "accepted, not yet in force";

/// The tracks of a change: one of the change itself, then one for each domain in the order in which
/// they began, with what was done with its tasks and its reservation below it. What took the change
/// back is on the same tracks.
pub fn of(report: &Report) -> Vec<TimelineTrack> {
    let mut tracks = vec![TimelineTrack::named("mode change")];
    add(&mut tracks, report, "");
    if let Some(back) = &report.rolled_back {
        add(&mut tracks, back, "taken back, ");
    }
    tracks
}

fn add(tracks: &mut Vec<TimelineTrack>, report: &Report, before: &str) {
    if let (Some(began), Some(ended)) = (report.timeline.began_at, report.timeline.ended_at) {
        tracks[0].slices.push(TimelineSlice {
            name: format!("{before}{} -> {}", report.from, report.to),
            from_ns: began.as_nanos(),
            until_ns: ended.max(began).as_nanos(),
            remark: super::change_answer::ending(report),
        });
    }
    if let Some(at) = report.timeline.in_force_at() {
        tracks[0].marks.push(mark("all in force", at, ""));
    }
    let clock = ChangeSpan::of(report);
    for part in change_phases(report) {
        let place = tracks
            .iter()
            .skip(1)
            .position(|one| one.name == part.domain);
        let place = place.map_or_else(
            || {
                tracks.push(TimelineTrack::named(&part.domain));
                tracks.len() - 1
            },
            |place| place + 1,
        );
        add_part(&mut tracks[place], &part, &clock);
    }
}

/// The span of a change on the manager's clock. An agent's clock may be another host's, so what it
/// says is put within.
struct ChangeSpan {
    first: Instant,
    last: Instant,
}

impl ChangeSpan {
    fn of(report: &Report) -> Self {
        let steps = || report.timeline.steps.iter().map(|step| step.at);
        let first = report.timeline.began_at.into_iter().chain(steps()).min();
        let last = report.timeline.ended_at.into_iter().chain(steps()).max();
        Self {
            first: first.unwrap_or(Instant::from_nanos(0)),
            last: last.unwrap_or(Instant::from_nanos(u64::MAX)),
        }
    }

    fn within(&self, at: Instant) -> Instant {
        at.max(self.first).min(self.last)
    }
}

fn add_part(domain: &mut TimelineTrack, part: &ChangePhase, clock: &ChangeSpan) {
    let from = clock.within(part.begins_at);
    let took = part.took.unwrap_or(Duration::ZERO);
    let until = clock.within(part.begins_at.saturating_add(took)).max(from);
    let slice = |name: &str, from: Instant, until: Instant| TimelineSlice {
        name: name.into(),
        from_ns: from.as_nanos(),
        until_ns: until.as_nanos(),
        remark: part.remark.clone(),
    };
    let below = match part.kind {
        PhaseKind::Settled | PhaseKind::Contradiction => {
            domain
                .marks
                .push(mark(part.kind.word(), from, &part.remark));
            return;
        }
        PhaseKind::Send | PhaseKind::Signal | PhaseKind::Receive | PhaseKind::Answer => "tasks",
        PhaseKind::Change => "reservation",
        PhaseKind::Boost => "boost",
    };
    domain.add(below, slice(part.kind.word(), from, until));
    if let Some(in_force_at) = part.in_force_at.filter(|at| *at > until) {
        domain.add(below, slice(PENDING, until, in_force_at));
    }
    if let Some(failure) = part.failure {
        domain.marks.push(mark(failure, until, &part.remark));
    }
}

fn mark(name: &str, at: Instant, remark: &str) -> TimelineMark {
    TimelineMark {
        name: name.into(),
        at_ns: at.as_nanos(),
        remark: remark.into(),
    }
}

#[cfg(test)]
mod tests;
