//! The counters of our tables of nftables, asked of the kernel itself: many ask often, and `nft` would be a process each time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::thread;

use crate::network_interface::NetworkPlace;
use crate::system_call::descriptor;

/// The header of a netlink message: its length, its kind, flags, a sequence number and a port.
const HEADER: usize = 16;
/// The header of a message of netfilter: the family of addresses, a version and the number of a resource.
const FAMILY_HEADER: usize = 4;
/// NFNL_SUBSYS_NFTABLES in the upper byte, as in each kind of its messages.
const NFTABLES: u16 = 10 << 8;
/// NFT_MSG_NEWOBJ: an object that there is.
const OBJECT: u16 = NFTABLES | 18;
/// NFT_MSG_GETOBJ.
const GET_OBJECT: u16 = NFTABLES | 19;
/// NLM_F_REQUEST and NLM_F_DUMP: all objects that match.
const DUMP_REQUEST: u16 = 0x301;
/// NLMSG_ERROR.
const ERROR: u16 = 2;
/// NLMSG_DONE.
const DONE: u16 = 3;
/// NFPROTO_INET: IPv4 and IPv6.
const INET: u8 = 1;
/// NFT_OBJECT_COUNTER.
const COUNTER: u32 = 1;
/// NFTA_OBJ_TABLE.
const TABLE_NAME: u16 = 1;
/// NFTA_OBJ_NAME.
const NAME: u16 = 2;
/// NFTA_OBJ_TYPE.
const TYPE: u16 = 3;
/// NFTA_OBJ_DATA.
const DATA: u16 = 4;
/// NFTA_COUNTER_PACKETS.
const PACKETS: u16 = 2;
/// The bits of an attribute's kind that are flags.
const FLAGS: u16 = 0xC000;

/// The packets that each counter with a name has counted in a table, in a network namespace or that of this thread; none where
/// there is no such table.
///
/// # Errors
/// `NotFound` if there is no such network namespace; otherwise what the kernel says.
pub fn counted(network: Option<&NetworkPlace>, table: &str) -> io::Result<BTreeMap<String, u64>> {
    let mut socket = File::from(match network {
        None => socket()?,
        Some(network) => {
            let namespace = network.open()?;
            // A socket stays in the namespace of the thread that made it.
            let within = || namespace.enter().and_then(|()| socket());
            let made = thread::scope(|scope| scope.spawn(within).join());
            made.map_err(|_| io::Error::other("the thread in the network namespace panicked"))??
        }
    });
    socket.write_all(&request(table))?;
    let (mut counters, mut answer) = (BTreeMap::new(), vec![0; 1 << 16]);
    loop {
        let length = socket.read(&mut answer)?;
        if length == 0 || enter(&mut counters, &answer[..length])? {
            return Ok(counters);
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes three numbers and makes a descriptor.
    unsafe {
        descriptor(libc::socket(
            libc::AF_NETLINK,
            kind,
            libc::NETLINK_NETFILTER,
        ))
    }
}

/// The request for all counters of a table.
fn request(table: &str) -> Vec<u8> {
    let mut body = vec![INET, 0, 0, 0];
    attribute(&mut body, TABLE_NAME, &[table.as_bytes(), &[0]].concat());
    attribute(&mut body, TYPE, &COUNTER.to_be_bytes());
    let length = (HEADER + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend_from_slice(&GET_OBJECT.to_ne_bytes());
    message.extend_from_slice(&DUMP_REQUEST.to_ne_bytes());
    // The sequence number and the port are for whoever has several requests.
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&body);
    message
}

/// Adds an attribute, filled up to a multiple of four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (4 + value.len()) as u16;
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Enters the counters of an answer; whether it is the last one.
fn enter(counters: &mut BTreeMap<String, u64>, mut answer: &[u8]) -> io::Result<bool> {
    while let Some(length) = number(answer).map(|length| length as usize) {
        let Some(message) = answer.get(HEADER..length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match u16::from_ne_bytes([answer[4], answer[5]]) {
            DONE => return Ok(true),
            ERROR => {
                let code = number(message).map_or(0, u32::cast_signed);
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            OBJECT => counters.extend(counter(message.get(FAMILY_HEADER..).unwrap_or_default())),
            _ => {}
        }
        let next = length.next_multiple_of(4).min(answer.len());
        answer = &answer[next..];
    }
    Ok(false)
}

/// The first four bytes as a number of this machine.
fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk()?))
}

/// The name and the packets of an object that is a counter.
fn counter(attributes: &[u8]) -> Option<(String, u64)> {
    let (mut name, mut packets) = (None, None);
    for (kind, value) in attributes_of(attributes) {
        match kind {
            NAME => {
                let text = value.split(|byte| *byte == 0).next()?;
                name = Some(String::from_utf8_lossy(text).into_owned());
            }
            TYPE if value != COUNTER.to_be_bytes() => return None,
            DATA => {
                let mut inner = attributes_of(value);
                let (_, count) = inner.find(|(kind, _)| *kind == PACKETS)?;
                packets = Some(u64::from_be_bytes(*count.first_chunk()?));
            }
            _ => {}
        }
    }
    name.zip(packets)
}

/// The attributes in a part of a message, each with its kind; those that are cut off are left out.
fn attributes_of(mut part: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head: [u8; 4] = *part.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = part.get(4..length)?;
        let kind = u16::from_ne_bytes([head[2], head[3]]) & !FLAGS;
        part = &part[length.next_multiple_of(4).min(part.len())..];
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&[0; 10]);
        message.extend_from_slice(body);
        message
    }

    fn object(name: &[u8], kind: u32, packets: u64) -> Vec<u8> {
        let mut body = vec![INET, 0, 0, 0];
        attribute(&mut body, TABLE_NAME, b"tailbound-a\0");
        attribute(&mut body, NAME, name);
        attribute(&mut body, TYPE, &kind.to_be_bytes());
        let mut data = Vec::new();
        attribute(&mut data, 1, &77_u64.to_be_bytes());
        attribute(&mut data, PACKETS, &packets.to_be_bytes());
        // NLA_F_NESTED.
        attribute(&mut body, DATA | 0x8000, &data);
        message(OBJECT, &body)
    }

    #[test]
    fn counters_have_their_packets_and_other_objects_are_passed_over() {
        let parts = [
            object(b"too-long-0\0", COUNTER, 17),
            object(b"a-quota\0", 2, 5),
            object(b"beyond-all-12\0", COUNTER, u64::MAX),
        ];
        let mut counters = BTreeMap::new();
        assert!(!enter(&mut counters, &parts.concat()).unwrap());
        let expected = [("too-long-0", 17), ("beyond-all-12", u64::MAX)];
        let expected = expected.map(|(name, packets)| (name.to_owned(), packets));
        assert_eq!(counters, expected.into());
        assert!(enter(&mut counters, &message(DONE, &[0; 4])).unwrap());
    }

    #[test]
    fn a_refusal_of_the_kernel_is_its_error() {
        let refusal = message(ERROR, &(-libc::EPERM).to_ne_bytes());
        let error = enter(&mut BTreeMap::new(), &refusal).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_message_that_is_cut_off_is_an_error() {
        let whole = object(b"too-long-0\0", COUNTER, 17);
        let cut = &whole[..whole.len() - 1];
        assert!(enter(&mut BTreeMap::new(), cut).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _whatever = enter(&mut BTreeMap::new(), &bytes);
            let _whatever = enter(&mut BTreeMap::new(), &message(OBJECT, &bytes));
        }
    }
}
