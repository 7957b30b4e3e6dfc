//! Values of types in place of bytes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{DataSpace, InProcess, Topic, TypedPublisher, TypedSubscriber};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Position {
    person: u8,
    millimetres: [i32; 2],
    label: String,
}

#[test]
fn values_arrive_as_they_were_and_other_bytes_are_refused() {
    let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
    let mut topic = Topic::new("positions", "Position", 64);
    topic.quality.history = 8;
    let subscriber = space.subscriber(&topic).unwrap();
    let mut subscriber = TypedSubscriber::<Position>::over(subscriber);
    let mut publisher = TypedPublisher::<Position>::over(space.publisher(&topic).unwrap());
    let position = Position {
        person: 4,
        millimetres: [-12, 5_000],
        label: "door".to_owned(),
    };
    publisher.publish(&position, None).unwrap();
    // Little-endian CDR by hand: alignment to four bytes, a length with the end of the text.
    let expected = [
        &[0, 1, 0, 0][..],
        &[4, 0, 0, 0],
        &(-12_i32).to_le_bytes(),
        &5_000_i32.to_le_bytes(),
        &5_u32.to_le_bytes(),
        b"door\0",
    ];
    let expected = expected.concat();
    let taken = subscriber.take(|message, value| {
        assert_eq!(message.payload, expected);
        assert_eq!(value.unwrap(), position);
    });
    assert!(taken.unwrap());
    let longer = [&expected[..], b"more"].concat();
    for other in [&b"text"[..], &[0, 0, 0, 0], &expected[..9], &longer] {
        publisher.publisher().publish(other).unwrap();
        let taken = subscriber.take(|_, value| {
            let error = value.unwrap_err().to_string();
            assert!(
                error.starts_with("the payload is no value of the type"),
                "{error}"
            );
        });
        assert!(taken.unwrap());
    }
}
