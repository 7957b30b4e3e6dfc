//! What a distribution is and where it comes from.

use std::fmt;

use serde::{Deserialize, Serialize};
use tailbound_time::{ClockId, Duration, nanoseconds};

/// What kind of knowledge a distribution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Proved to enclose the true distribution, under the stated assumptions.
    Bound,
    /// Computed or simulated, without a proof of its error.
    Estimate,
    /// Where the quantiles of one run of a given length lie with a stated probability, each by itself.
    Band,
    /// Measured.
    Sample,
}

impl fmt::Display for Evidence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Bound => "bound",
            Self::Estimate => "estimate",
            Self::Band => "band",
            Self::Sample => "sample",
        })
    }
}

/// Where a distribution comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// What kind of knowledge it is.
    pub evidence: Evidence,
    /// What it is the distribution of, such as `response time of redis.sort`.
    pub subject: String,
    /// The method by name, with its source.
    pub method: String,
    /// Assumptions under which the method holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// The seed, where randomness came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The clock that time stamps were read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockId>,
    /// The host's fingerprint, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What was left out at the start.
    #[serde(
        default,
        rename = "warm_up_ns",
        with = "nanoseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub warm_up: Option<Duration>,
}

impl Provenance {
    /// Provenance with evidence, subject and method; the rest is filled in as known.
    pub fn new(evidence: Evidence, subject: impl Into<String>, method: impl Into<String>) -> Self {
        Self {
            evidence,
            subject: subject.into(),
            method: method.into(),
            assumptions: Vec::new(),
            seed: None,
            clock: None,
            host: None,
            warm_up: None,
        }
    }
}
