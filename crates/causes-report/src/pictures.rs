//! Causes over the quantiles, and the slowest requests.

use tailbound_report::{
    PictureSection, StackedColumn, StackedLayer, StackedPicture, TimelinePicture, readable,
};
use tailbound_simulator::traces::{TimelineSlice, TimelineTrack};
use tailbound_trace::explain::{Explanation, LatencyCause, SlowRequest};

use crate::LatencyCauses;

/// The most slow requests of a run that are drawn; the document has as many as were kept.
const MOST_SLOW: usize = 5;

/// The pictures of a run.
pub(crate) fn section(causes: &LatencyCauses) -> PictureSection {
    let mut stacks = Vec::new();
    let mut pictures = Vec::new();
    for measured in &causes.measured {
        stacks.push(stack(measured, "measured"));
        stacks.extend(
            causes
                .prediction_of(measured)
                .map(|simulated| stack(simulated, "simulated")),
        );
        let slow = measured.slowest.iter().take(MOST_SLOW);
        pictures.extend(slow.map(|slow| course(measured, slow)));
    }
    PictureSection {
        id: "latency-causes",
        title: "What requests waited for",
        note: "Columns are bands of quantiles, from the fastest requests to the slowest: how long each cause lasted on the \
               average, and which share it had. Below, the slowest requests from the intended send time to the reply."
            .into(),
        stacks,
        pictures,
    }
}

fn stack(explanation: &Explanation, origin: &str) -> StackedPicture {
    let has = |cause: &LatencyCause| {
        let mut bands = explanation.bands.iter();
        bands.any(|band| !band.of_cause(*cause).is_zero())
    };
    let causes: Vec<LatencyCause> = LatencyCause::ALL.into_iter().filter(has).collect();
    let columns = explanation.bands.iter().map(|band| StackedColumn {
        label: format!("{} %", (band.to * 1e6).round() / 1e4),
        parts: causes
            .iter()
            .map(|cause| band.of_cause(*cause).scaled_down(1, band.requests.max(1)))
            .collect(),
    });
    let layers = causes.iter().map(|cause| StackedLayer {
        name: cause.words().to_string(),
        colour: LatencyCause::ALL
            .iter()
            .position(|one| one == cause)
            .unwrap_or(0),
    });
    StackedPicture {
        title: format!("{}, {}, {origin}", explanation.subject, explanation.run),
        about: format!("{} requests", explanation.requests),
        layers: layers.collect(),
        columns: columns.collect(),
    }
}

fn course(explanation: &Explanation, slow: &SlowRequest) -> TimelinePicture {
    let mut request = TimelineTrack::named("request");
    let slice = |name: &str, from: u64, length: u64, remark: &str| TimelineSlice {
        name: name.to_string(),
        from_ns: from,
        until_ns: from + length,
        remark: remark.to_string(),
    };
    request
        .slices
        .push(slice(&slow.task, 0, slow.latency.as_nanos(), ""));
    let mut tracks = vec![request];
    for stretch in &slow.course {
        let words = stretch.cause.words();
        let place = tracks.iter().position(|track| track.name == words);
        let place = place.unwrap_or_else(|| {
            tracks.push(TimelineTrack::named(words));
            tracks.len() - 1
        });
        let name = match stretch.detail.as_str() {
            "" => words,
            detail => detail,
        };
        let (from, length) = (stretch.start.as_nanos(), stretch.length.as_nanos());
        tracks[place]
            .slices
            .push(slice(name, from, length, &stretch.detail));
    }
    TimelinePicture {
        title: format!(
            "{}, {}, request {}",
            explanation.subject, explanation.run, slow.number
        ),
        about: match slow.in_cells {
            false => format!(
                "{} from the intended send time to the reply",
                readable(slow.latency)
            ),
            true => format!(
                "{} from the intended send time to the reply, in cells of time: within one, the order is not told",
                readable(slow.latency)
            ),
        },
        tracks,
    }
}
