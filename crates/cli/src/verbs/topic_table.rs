//! The topics whose contracts the kernel enforces in `tailbound status`, with what it has dropped of them.

use tailbound_control::ReservationStatus;

use crate::output::table;

const HEADER: [&str; 5] = [
    "topic",
    "dropped for",
    "too long",
    "beyond one contract",
    "beyond all",
];

/// The table; none without such topics.
pub fn of_reservations(reservations: &[ReservationStatus]) -> Option<String> {
    let topics = reservations
        .iter()
        .flat_map(|one| one.dropped.iter().map(move |topic| (one, topic)));
    let rows: Vec<Vec<String>> = topics
        .map(|(one, topic)| {
            let mut row = vec![topic.topic.clone(), one.enforced.domain.clone()];
            row.extend(topic.by_reason().map(|count| count.to_string()));
            row
        })
        .collect();
    (!rows.is_empty()).then(|| table(&HEADER, &rows))
}
