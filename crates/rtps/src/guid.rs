//! The identities of participants and endpoints (DDSI-RTPS 2.3, section 9.3.1).

/// The part of a [`Guid`] that all entities of a participant share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuidPrefix(pub [u8; 12]);

/// The entity within its participant: three bytes of a number, and one byte of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub [u8; 4]);

/// The identity of an entity, unique among all participants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid {
    /// The participant.
    pub prefix: GuidPrefix,
    /// The entity within the participant.
    pub entity: EntityId,
}

/// The kinds of entities that users make, without a key.
const USER_WRITER: u8 = 0x03;
const USER_READER: u8 = 0x04;

impl EntityId {
    /// No entity in particular: every reader that matches the writer.
    pub const UNKNOWN: Self = Self([0; 4]);
    /// The participant itself.
    pub const PARTICIPANT: Self = Self([0, 0, 1, 0xc1]);
    /// The writer that announces a participant.
    pub const PARTICIPANT_WRITER: Self = Self([0, 1, 0, 0xc2]);
    /// The reader of announcements of participants.
    pub const PARTICIPANT_READER: Self = Self([0, 1, 0, 0xc7]);
    /// The writer that announces the writers of a participant.
    pub const PUBLICATIONS_WRITER: Self = Self([0, 0, 3, 0xc2]);
    /// The reader of announcements of writers.
    pub const PUBLICATIONS_READER: Self = Self([0, 0, 3, 0xc7]);
    /// The writer that announces the readers of a participant.
    pub const SUBSCRIPTIONS_WRITER: Self = Self([0, 0, 4, 0xc2]);
    /// The reader of announcements of readers.
    pub const SUBSCRIPTIONS_READER: Self = Self([0, 0, 4, 0xc7]);

    /// The writer of a topic with this number, of which 24 bits count.
    pub fn user_writer(number: u32) -> Self {
        Self::user(number, USER_WRITER)
    }

    /// The reader of a topic with this number, of which 24 bits count.
    pub fn user_reader(number: u32) -> Self {
        Self::user(number, USER_READER)
    }

    fn user(number: u32, kind: u8) -> Self {
        let [_, first, second, third] = number.to_be_bytes();
        Self([first, second, third, kind])
    }

    /// Whether the entity is a writer of a topic without keys.
    pub fn is_keyless_writer(self) -> bool {
        self.0[3] == USER_WRITER
    }

    /// Whether the entity is a reader of a topic without keys.
    pub fn is_keyless_reader(self) -> bool {
        self.0[3] == USER_READER
    }
}

impl GuidPrefix {
    /// The entity of this participant.
    pub fn with(self, entity: EntityId) -> Guid {
        Guid {
            prefix: self,
            entity,
        }
    }
}

impl Guid {
    /// Writes the identity as it stands in announcements.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&self.prefix.0);
        bytes[12..].copy_from_slice(&self.entity.0);
        bytes
    }

    /// Reads the identity as it stands in announcements.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let (mut prefix, mut entity) = ([0; 12], [0; 4]);
        prefix.copy_from_slice(&bytes[..12]);
        entity.copy_from_slice(&bytes[12..]);
        GuidPrefix(prefix).with(EntityId(entity))
    }
}
