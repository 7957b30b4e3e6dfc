//! How parts of a description look in a result: the same keys, with durations as integers of
//! nanoseconds as everywhere in machine output.

use serde::{Deserialize, Serialize};
use tailbound_model::{Percentile, Slo};
use tailbound_time::{Duration, nanoseconds};

/// A promise.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Slo")]
pub(crate) struct SloDocument {
    percentile: Percentile,
    #[serde(rename = "latency_ns", with = "nanoseconds")]
    latency: Duration,
    #[serde(default)]
    task: Option<String>,
}

/// An interface or none.
pub(crate) mod optional_interface {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tailbound_model::{InterfaceInNanoseconds, ResourceInterface};

    #[derive(Serialize)]
    struct InterfaceText<'a>(#[serde(with = "InterfaceInNanoseconds")] &'a ResourceInterface);

    #[derive(Deserialize)]
    struct Read(#[serde(with = "InterfaceInNanoseconds")] ResourceInterface);

    pub(crate) fn serialize<S: Serializer>(
        interface: &Option<ResourceInterface>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        interface.as_ref().map(InterfaceText).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<ResourceInterface>, D::Error> {
        Ok(Option::<Read>::deserialize(input)?.map(|read| read.0))
    }
}
