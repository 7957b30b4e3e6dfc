//! Sessions on a link that has none of its own, such as a serial port: what one end had begun to say
//! before the other was started anew may still come, in the middle of a frame.
//!
//! ```text
//! agent                                host
//!   FF FF FF FF 0000000000000000  ->         I am new here
//!                               <-  FF FF FF FF 91b2...e07c   then this is session 91b2...e07c
//!   FF FF FF FF 91b2...e07c  ->              and here it begins; frames follow
//! ```
//!
//! Four bytes FF in a row are in no frame: its payload is UTF-8, which has none, and its length none
//! that would be taken. So an end that sees them drops what it has, wherever it is. The host tells a
//! session by itself, too, to an agent that has not noticed that the host is another one.

/// What no frame has in it.
const MARK: [u8; 4] = [0xFF; 4];
/// A session's number in hexadecimal digits.
const DIGITS: usize = 16;
/// The session that an agent asks for.
pub const ASKS: u64 = 0;

/// What begins a session.
pub fn preamble(session: u64) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    bytes.extend(format!("{session:016x}").into_bytes());
    bytes
}

/// A number that no other session has had, but by an accident of 64 bits.
pub fn new_session() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish();
    random.max(ASKS + 1)
}

/// Something that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortInput {
    /// Bytes of frames.
    Bytes(Vec<u8>),
    /// A session begins.
    Session(u64),
}

/// Tells sessions from frames, however the bytes come apart.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    /// So many bytes FF have come in a row; as many as a mark has, if more.
    marks: usize,
    /// The digits after them.
    digits: Vec<u8>,
}

impl Scanner {
    /// Takes bytes in as they were received.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<PortInput> {
        let mut inputs = Vec::new();
        let mut plain = Vec::new();
        for &byte in bytes {
            if byte == 0xFF {
                if !self.digits.is_empty() {
                    self.give_up(&mut plain);
                }
                // More in a row than a mark has are what a cut one has left.
                self.marks = (self.marks + 1).min(MARK.len());
                continue;
            }
            let is_digit = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if self.marks < MARK.len() || !is_digit {
                self.give_up(&mut plain);
                plain.push(byte);
                continue;
            }
            self.digits.push(byte);
            if self.digits.len() == DIGITS {
                if !plain.is_empty() {
                    inputs.push(PortInput::Bytes(std::mem::take(&mut plain)));
                }
                inputs.push(PortInput::Session(number(&self.digits)));
                self.marks = 0;
                self.digits.clear();
            }
        }
        if !plain.is_empty() {
            inputs.push(PortInput::Bytes(plain));
        }
        inputs
    }

    /// What looked like a mark was none.
    fn give_up(&mut self, plain: &mut Vec<u8>) {
        plain.extend(&MARK[..self.marks]);
        plain.append(&mut self.digits);
        self.marks = 0;
    }
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |sum, digit| {
        let value = char::from(*digit).to_digit(16).unwrap_or(0);
        (sum << 4) | u64::from(value)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pushed(pieces: &[&[u8]]) -> (Vec<u8>, Vec<u64>) {
        let mut scanner = Scanner::default();
        let (mut bytes, mut sessions) = (Vec::new(), Vec::new());
        for input in pieces.iter().flat_map(|piece| scanner.push(piece)) {
            match input {
                PortInput::Bytes(more) => bytes.extend(more),
                PortInput::Session(session) => sessions.push(session),
            }
        }
        (bytes, sessions)
    }

    #[test]
    fn the_end_of_a_cut_preamble_does_not_hide_the_next() {
        let whole = preamble(0x91b2);
        for cut in 0..whole.len() {
            let (_, sessions) = pushed(&[&whole[..cut], &whole]);
            assert_eq!(sessions, [0x91b2], "cut after {cut}");
        }
    }

    proptest! {
        #[test]
        fn frames_pass_as_they_are(
            payload in "\\PC{0,300}",
            session in any::<u64>(),
            cuts in prop::collection::vec(1_usize..9, 0..200),
        ) {
            let mut frame = b"TM\0\x01".to_vec();
            frame.extend((payload.len() as u32).to_be_bytes());
            frame.extend(payload.bytes());
            let mut all = frame.clone();
            all.extend(preamble(session));
            all.extend(&frame);
            let mut pieces = Vec::new();
            let mut rest = all.as_slice();
            for cut in cuts {
                let (piece, left) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = left;
            }
            pieces.push(rest);
            let (bytes, sessions) = pushed(&pieces);
            prop_assert_eq!(sessions, [session]);
            prop_assert_eq!(bytes, [frame.clone(), frame].concat());
        }

        #[test]
        fn a_session_is_found_behind_any_garbage(
            garbage in prop::collection::vec(prop_oneof![Just(0xFF), any::<u8>()], 0..200),
            session in any::<u64>(),
        ) {
            let (_, sessions) = pushed(&[&garbage, &preamble(session)]);
            prop_assert_eq!(sessions.last(), Some(&session));
        }
    }
}
