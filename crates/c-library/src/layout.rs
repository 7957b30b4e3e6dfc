//! The structures of the headers, in the layout of C.

use std::ffi::c_char;

/// `tailbound_quality`: zeros stand for the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QualityLayout {
    /// The number of messages that wait; 0 is 1.
    pub history: u32,
    /// 0 best effort, 1 reliable.
    pub reliability: u32,
    /// The longest distance between messages; 0 is none.
    pub deadline_ns: u64,
    /// The age above which a message is not delivered; 0 is none.
    pub lifespan_ns: u64,
    /// The time after the last sign of life at which a publisher is lost; 0 is none.
    pub lease_ns: u64,
}

/// `tailbound_contract`: all zeros stand for no contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ContractLayout {
    /// The number of messages in each interval.
    pub messages: u32,
    /// 0 drop, 1 hold back.
    pub violation: u32,
    /// The bytes in each interval; 0 is `messages` times the longest message.
    pub bytes: u64,
    /// The length of the interval.
    pub interval_ns: u64,
    /// The least distance between messages.
    pub least_distance_ns: u64,
}

/// `tailbound_topic`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TopicLayout {
    /// The size of the structure: an uninitialised one, and one of another version, are refused.
    pub struct_size: usize,
    /// The name.
    pub name: *const c_char,
    /// The name of the type of its messages.
    pub type_name: *const c_char,
    /// The longest payload, in bytes.
    pub longest: usize,
    /// The number of publishers that there is room for.
    pub publishers: u32,
    /// The number of subscribers that there is room for.
    pub subscribers: u32,
    /// The qualities of its delivery.
    pub quality: QualityLayout,
    /// The traffic of each publisher.
    pub contract: ContractLayout,
}

/// `tailbound_udp_route`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UdpRouteLayout {
    /// The name of the topic.
    pub topic: *const c_char,
    /// The address of the subscriber of this program, or NULL.
    pub listen: *const c_char,
    /// The addresses of the subscribers of others.
    pub peers: *const *const c_char,
    /// Their number.
    pub peer_count: usize,
}

/// `tailbound_zeromq_route`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ZeroMqRouteLayout {
    /// The name of the topic.
    pub topic: *const c_char,
    /// The addresses at which a publisher of this program may listen.
    pub listen: *const *const c_char,
    /// Their number.
    pub listen_count: usize,
    /// The addresses of the publishers that a subscriber of this program connects to.
    pub publishers: *const *const c_char,
    /// Their number.
    pub publisher_count: usize,
}

/// `tailbound_message`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MessageLayout {
    /// The payload, valid as long as the callback runs.
    pub payload: *const u8,
    /// Its length.
    pub length: usize,
    /// The publisher.
    pub source: u64,
    /// The publisher's number of the message.
    pub sequence: u64,
    /// The instance; 0 without keys.
    pub instance: u64,
    /// The time at which the message was published.
    pub source_time_ns: u64,
    /// The time of the oldest measurement in the message.
    pub origin_time_ns: u64,
    /// The time at which the message was taken.
    pub arrival_time_ns: u64,
    /// 1 if the instance is gone.
    pub disposes: u32,
}

/// `tailbound_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SubscriberEventLayout {
    /// The kind, by the numbers of the header.
    pub kind: u32,
    /// The limit of the contract that was exceeded; 0 of other kinds.
    pub breach: u32,
    /// The publisher.
    pub source: u64,
    /// The number of messages or deadlines; 1 of other kinds.
    pub count: u64,
}

/// `tailbound_counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CountsLayout {
    /// Delivered.
    pub delivered: u64,
    /// Signs of life and farewells.
    pub signs: u64,
    /// Missing in the sequence of a publisher.
    pub lost: u64,
    /// Held back until the contract admitted them.
    pub held_back: u64,
    /// Dropped because of the contract.
    pub dropped: u64,
    /// Of another topic or another type.
    pub of_other_topics: u64,
    /// Longer than the topic admits.
    pub too_long: u64,
    /// From publishers that there was no room for.
    pub of_strangers: u64,
    /// Repeated, or overtaken by newer ones.
    pub repeated: u64,
    /// Older than their lifespan.
    pub expired: u64,
    /// No messages at all.
    pub garbage: u64,
}

/// `tailbound_sample`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SampleLayout {
    /// The number of the message, from 1.
    pub number: u64,
    /// Its length in bytes.
    pub length: usize,
    /// The time at which it was written.
    pub written_time_ns: u64,
    /// The time since then.
    pub age_ns: u64,
    /// 1 if it is no older than the port's validity.
    pub valid: u32,
}

/// `tailbound_queued_message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct QueuedMessageLayout {
    /// The number of the message, from 1, without gaps.
    pub number: u64,
    /// Its length in bytes.
    pub length: usize,
    /// The time at which it was sent.
    pub written_time_ns: u64,
    /// The time since then.
    pub age_ns: u64,
    /// The number of messages that wait behind it.
    pub waiting: u64,
}
