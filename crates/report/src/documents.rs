//! How parts of a description look in a result: the same keys, with durations as integers of
//! nanoseconds as everywhere in machine output.

use serde::{Deserialize, Serialize};
use tailbound_model::{BudgetScope, CpuSet, Percentile, Priority, ResourceInterface, Slo};
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

/// A resource interface.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ResourceInterface")]
struct InterfaceDocument {
    #[serde(rename = "budget_ns", with = "nanoseconds")]
    budget: Duration,
    #[serde(rename = "period_ns", with = "nanoseconds")]
    period: Duration,
    priority: Priority,
    cpus: CpuSet,
    #[serde(default, skip_serializing_if = "is_default")]
    budget_scope: BudgetScope,
}

fn is_default(scope: &BudgetScope) -> bool {
    *scope == BudgetScope::default()
}

/// An interface or none.
pub(crate) mod optional_interface {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tailbound_model::ResourceInterface;

    use super::InterfaceDocument;

    #[derive(Serialize)]
    struct InterfaceText<'a>(#[serde(with = "InterfaceDocument")] &'a ResourceInterface);

    #[derive(Deserialize)]
    struct Read(#[serde(with = "InterfaceDocument")] ResourceInterface);

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
