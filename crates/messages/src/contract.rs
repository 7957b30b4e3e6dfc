//! Contracts of publishers: how much one may send, and what happens to the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// The traffic that a publisher of a topic may cause. Receivers allocate for it before the start, and enforce it.
///
/// Source: J. Zamorano and others, "Run-time mechanisms for property preservation in high-integrity real-time systems",
/// OSPERT 2007, section 2.3.3: at most N requests and k bytes a time unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The number of messages in each interval of this length, wherever it begins.
    pub messages: u32,
    /// The bytes of payload in each interval; if left out, `messages` times the longest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The length of the interval.
    pub interval: Duration,
    /// The least distance between two messages.
    #[serde(default)]
    pub least_distance: Duration,
    /// The fate of a message beyond the contract.
    #[serde(default)]
    pub violation: ExcessRule,
}

/// The fate of a message beyond the contract of its publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExcessRule {
    /// The message is dropped, counted and reported.
    #[default]
    Drop,
    /// The message is held back until the contract admits it; of those held back, the history has room for the newest.
    HoldBack,
}

/// The most messages in an interval that a contract may admit, since a regulator remembers each of them.
const MOST_MESSAGES: u32 = 65_536;

/// Why a contract has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContractFault {
    /// No message, or too many.
    #[error("the contract admits {messages} messages in an interval: write 1 to 65536")]
    Messages {
        /// The number in the contract.
        messages: u32,
    },
    /// An interval of no length.
    #[error("the contract has an interval of no length: write a duration such as \"10ms\"")]
    Interval,
    /// Fewer bytes in an interval than one message may have.
    #[error(
        "the contract admits {bytes} bytes in an interval, and a message may have {longest}: \
         admit more bytes, or make messages shorter"
    )]
    Bytes {
        /// The bytes in the contract.
        bytes: u64,
        /// The longest message.
        longest: usize,
    },
}

impl Contract {
    /// Says whether the contract can be kept and enforced, for messages of at most `longest` bytes.
    ///
    /// # Errors
    /// If it admits no message, more than 65,536 in an interval, an interval of no length, or fewer bytes than the longest
    /// message has.
    pub fn check(&self, longest: usize) -> Result<(), ContractFault> {
        let messages = self.messages;
        if messages == 0 || messages > MOST_MESSAGES {
            return Err(ContractFault::Messages { messages });
        }
        if self.interval.is_zero() {
            return Err(ContractFault::Interval);
        }
        let bytes = self.bytes_within_interval(longest);
        if bytes < longest as u64 {
            return Err(ContractFault::Bytes { bytes, longest });
        }
        Ok(())
    }

    /// The bytes of payload that each interval may carry, of messages of at most `longest` bytes.
    pub fn bytes_within_interval(&self, longest: usize) -> u64 {
        self.bytes
            .unwrap_or_else(|| u64::from(self.messages).saturating_mul(longest as u64))
    }
}
