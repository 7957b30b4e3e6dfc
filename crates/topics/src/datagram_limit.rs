//! The contract of a topic as limits on datagrams, which the kernel enforces where they arrive.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use tailbound_messages::{HEADER_LENGTH, LONGEST_DATAGRAM, multicast_group};
use tailbound_time::Duration;

use crate::{TopicDescription, TopicGuard, TransportKind};

/// The bytes of the head of UDP, which the kernel counts to the length of a datagram.
const UDP_HEAD: u64 = 8;
/// The bytes of the head of IPv4 without options, which it counts to the length of a packet.
const IP_HEAD: u64 = 20;
/// The bytes before each piece of a message that does not fit into a datagram.
const FRAGMENT_HEAD: u64 = 32;
/// The signs of life for which there is room within a lease.
const SIGNS_IN_LEASE: u64 = 8;
const SECOND: u64 = 1_000_000_000;

/// The datagrams of a topic that the kernel lets through to subscribers: token buckets, which let all pass that publishers
/// send within their contract.
///
/// A contract admits M messages in every interval of length I, so at most M (1 + t / I) in a window of length t. The network
/// delays each by between nothing and a jitter J, after which at most M (1 + J / I) + M t / I arrive in the window (Le Boudec and
/// Thiran, *Network Calculus*, 2001, section 1.2): a bucket of the first term that fills at the rate M / I admits them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramLimit {
    /// The key of the topic in the description.
    pub topic: String,
    /// The network interface.
    pub interface: GuardedInterface,
    /// The multicast group of the topic.
    pub group: Ipv4Addr,
    /// The port.
    pub port: u16,
    /// The number of publishers.
    pub publishers: u32,
    /// The longest datagram, with the head of UDP, in bytes.
    pub longest: u64,
    /// The datagrams of a publisher.
    pub datagrams: TokenBucket,
    /// The bytes of a publisher's packets, where the contract limits them.
    pub bytes: Option<TokenBucket>,
    /// The time after which a publisher that sends nothing has a full bucket.
    pub refill: Duration,
}

/// The network interface at which datagrams of a topic arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardedInterface {
    /// Every one.
    Every,
    /// The one with this address.
    Address(Ipv4Addr),
    /// The one with this name.
    Named(String),
}

impl GuardedInterface {
    /// The interface and the port of an address such as `10.0.0.2:7410` or `eth0:7410`; `None` for what is neither, and for a
    /// name with letters that rules of the kernel do not have.
    pub fn with_port(address: &str) -> Option<(Self, u16)> {
        let (interface, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.@".contains(letter);
        let interface = match interface.parse::<Ipv4Addr>() {
            Ok(address) if address.is_unspecified() => Self::Every,
            Ok(address) => Self::Address(address),
            Err(_) if !interface.is_empty() && interface.chars().all(is_plain) => {
                Self::Named(interface.to_owned())
            }
            Err(_) => return None,
        };
        Some((interface, port))
    }
}

/// A rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// The tokens that come in each unit.
    pub amount: u64,
    /// The unit.
    pub unit: RateUnit,
    /// The tokens that a full bucket has.
    pub burst: u64,
}

/// The unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateUnit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

impl RateUnit {
    const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    /// The name, as the kernel's tools have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    fn length_ns(self) -> u64 {
        let seconds = match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        };
        seconds * SECOND
    }
}

impl TokenBucket {
    /// A bucket that fills no slower than by `tokens` in an interval, as little faster as a whole number in one of the units says.
    fn at_least(tokens: u64, interval: Duration, burst: u64, units: &[RateUnit]) -> Self {
        let interval_ns = u128::from(interval.as_nanos().max(1));
        let in_unit = |unit: RateUnit| u128::from(tokens) * u128::from(unit.length_ns());
        let exact = units
            .iter()
            .copied()
            .find(|unit| in_unit(*unit).is_multiple_of(interval_ns));
        let unit = exact.or(units.last().copied()).unwrap_or(RateUnit::Second);
        // The kernel counts the time of a token in whole nanoseconds.
        let most = u128::from(unit.length_ns());
        let amount = in_unit(unit).div_ceil(interval_ns).clamp(1, most);
        Self {
            amount: u64::try_from(amount).unwrap_or(u64::MAX),
            unit,
            burst: burst.clamp(1, u64::from(u32::MAX)),
        }
    }

    /// The bucket of several publishers together.
    pub fn times(self, publishers: u32) -> Self {
        let publishers = u64::from(publishers.max(1));
        Self {
            amount: self
                .amount
                .saturating_mul(publishers)
                .min(self.unit.length_ns()),
            burst: self
                .burst
                .saturating_mul(publishers)
                .min(u64::from(u32::MAX)),
            ..self
        }
    }
}

impl DatagramLimit {
    /// The limit of the topic with this key; `None` unless its contract is to be enforced by the kernel.
    pub fn of(key: &str, topic: &TopicDescription) -> Option<Self> {
        let contract = topic.contract.as_ref()?;
        if topic.guard != TopicGuard::Kernel || topic.transport != TransportKind::Udp {
            return None;
        }
        let (interface, port) = GuardedInterface::with_port(topic.address()?)?;
        let interval = contract.interval;
        let interval_ns = interval.as_nanos().max(1);
        let message = u64::from(topic.size) + HEADER_LENGTH as u64;
        let pieces = match message <= LONGEST_DATAGRAM as u64 {
            true => 1,
            false => message.div_ceil(LONGEST_DATAGRAM as u64 - FRAGMENT_HEAD),
        };
        // Signs of life and a farewell are outside of the contract.
        let signs = topic.quality.liveliness.map_or(0, |liveliness| {
            let lease_ns = liveliness.lease.as_nanos().max(1);
            SIGNS_IN_LEASE
                .saturating_mul(interval_ns)
                .div_ceil(lease_ns)
        });
        let messages = u64::from(contract.messages);
        let datagrams = (messages * pieces).saturating_add(signs + 1);
        // Where the description does not say what the network adds, it is as much as an interval.
        let jitter = topic
            .delay
            .map_or(interval, |delay| delay.most.saturating_sub(delay.least));
        let windows = 1 + jitter.as_nanos().div_ceil(interval_ns);
        let bytes = contract.bytes.map(|bytes| {
            let heads = (HEADER_LENGTH as u64 + UDP_HEAD + IP_HEAD + FRAGMENT_HEAD) * datagrams;
            let bytes = bytes.saturating_add(heads);
            // In longer units the kernel cannot count as many bytes.
            let units = &RateUnit::ALL[..1];
            TokenBucket::at_least(bytes, interval, bytes.saturating_mul(windows), units)
        });
        let name = topic.name.as_deref().unwrap_or(key);
        Some(Self {
            topic: key.to_owned(),
            interface,
            group: multicast_group(name),
            port,
            publishers: u32::try_from(topic.publishers.len()).unwrap_or(u32::MAX),
            longest: message.min(LONGEST_DATAGRAM as u64) + UDP_HEAD,
            datagrams: TokenBucket::at_least(
                datagrams,
                interval,
                datagrams.saturating_mul(windows),
                &RateUnit::ALL,
            ),
            bytes,
            refill: interval.saturating_add(jitter),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use tailbound_messages::{Contract, ExcessRule, Liveliness, Quality, Regulator};
    use tailbound_time::Instant;

    use super::*;
    use crate::Delay;

    fn topic(contract: Contract) -> TopicDescription {
        TopicDescription {
            publishers: vec!["camera/grab".to_owned(), "camera/look".to_owned()],
            subscribers: vec!["planner/plan".to_owned()],
            released: Vec::new(),
            size: 100,
            type_name: None,
            transport: TransportKind::Udp,
            name: None,
            address: Some("10.0.0.2:7410".to_owned()),
            quality: Quality::default(),
            contract: Some(contract),
            guard: TopicGuard::Kernel,
            delay: None,
        }
    }

    fn contract(messages: u32, interval: Duration) -> Contract {
        Contract {
            messages,
            bytes: None,
            interval,
            least_distance: Duration::ZERO,
            violation: ExcessRule::Drop,
        }
    }

    #[test]
    fn a_contract_is_a_bucket_of_datagrams_with_room_for_jitter() {
        let mut topic = topic(contract(4, Duration::from_millis(20)));
        let limit = DatagramLimit::of("image", &topic).unwrap();
        assert_eq!(
            (limit.publishers, limit.port, limit.longest),
            (2, 7410, 172)
        );
        // Four messages and a farewell in 20 ms, and as many again that the network delayed.
        let bucket = |amount, unit, burst| TokenBucket {
            amount,
            unit,
            burst,
        };
        assert_eq!(limit.datagrams, bucket(250, RateUnit::Second, 10));
        assert_eq!(limit.datagrams.times(2), bucket(500, RateUnit::Second, 20));
        assert_eq!(limit.bytes, None);
        topic.delay = Some(Delay {
            least: Duration::from_millis(1),
            most: Duration::from_millis(1),
        });
        topic.contract = Some(contract(1, Duration::from_secs(25)));
        topic.quality.liveliness = Some(Liveliness {
            lease: Duration::from_secs(50),
        });
        // A message, a farewell and four signs of life in 25 s.
        let limit = DatagramLimit::of("image", &topic).unwrap();
        assert_eq!(limit.datagrams, bucket(864, RateUnit::Hour, 6));
        topic.guard = TopicGuard::Library;
        assert_eq!(DatagramLimit::of("image", &topic), None);
    }

    #[test]
    fn an_interface_is_every_one_or_has_an_address_or_a_name() {
        let with_port = GuardedInterface::with_port;
        assert_eq!(with_port("0.0.0.0:1"), Some((GuardedInterface::Every, 1)));
        let address = GuardedInterface::Address(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(with_port("10.0.0.2:7410"), Some((address, 7410)));
        let named = GuardedInterface::Named("eth0.7".to_owned());
        assert_eq!(with_port("eth0.7:7410"), Some((named, 7410)));
        for bad in ["eth0", "eth0:x", ":7410", "eth\"0:7410"] {
            assert_eq!(with_port(bad), None, "{bad}");
        }
    }

    proptest! {
        /// Whatever a publisher sends within its contract, delayed by up to the jitter, finds tokens.
        #[test]
        fn what_a_contract_admits_finds_tokens(
            messages in 1_u32..6, interval_us in 1_u64..5_000, jitter_us in 0_u64..4_000,
            sends in prop::collection::vec((0_u64..2_000, 0_u64..4_001), 1..80),
        ) {
            let interval = Duration::from_micros(interval_us);
            let contract = contract(messages, interval);
            let mut topic = topic(contract);
            let jitter_us = jitter_us.min(4_000);
            topic.delay = Some(Delay {
                least: Duration::ZERO,
                most: Duration::from_micros(jitter_us),
            });
            let bucket = DatagramLimit::of("image", &topic).unwrap().datagrams;
            let mut regulator = Regulator::new(&contract, 100).unwrap();
            let (mut now_us, mut arrivals) = (0, Vec::new());
            for (gap_us, delay_us) in sends {
                now_us += gap_us;
                if regulator.admit(Instant::from_nanos(now_us * 1_000), 1).is_ok() {
                    arrivals.push((now_us + delay_us.min(jitter_us)) * 1_000);
                }
            }
            arrivals.sort_unstable();
            // As the kernel counts: a token costs whole nanoseconds, and the bucket holds the burst.
            let cost_ns = bucket.unit.length_ns() / bucket.amount;
            let most_ns = cost_ns * bucket.burst;
            let (mut tokens_ns, mut last_ns) = (most_ns, 0);
            for at_ns in arrivals {
                tokens_ns = (tokens_ns + at_ns - last_ns).min(most_ns);
                last_ns = at_ns;
                prop_assert!(tokens_ns >= cost_ns, "no token at {at_ns} ns");
                tokens_ns -= cost_ns;
            }
        }
    }
}
