//! The load generator against services whose requests and replies are messages with bounds.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::testbed::*;
use tailbound_measurement::protocol::frame::{WorkReply, WorkRequest};
use tailbound_measurement::{Endpoint, LoadPlan, Progress, RecordOutcome, await_service, measure};
use tailbound_model::{Protocol, Scheduling};
use tailbound_time::Duration;

fn ignore(_: Progress) {}

/// A plan of two tasks, one of them with three clients: 75 requests.
fn two_tasks(protocol: Protocol, endpoint: &Endpoint) -> LoadPlan {
    let mut service = service(
        protocol,
        &[
            ("a", task(periodic(ms(10), ms(0)), us(100))),
            ("b", task(periodic(ms(20), ms(3)), us(50))),
        ],
    );
    service.tasks.get_mut("b").unwrap().clients = 3;
    plan(&service, endpoint, ms(0), ms(300))
}

fn all_are_answered(plan: &LoadPlan) {
    let measured = measure(plan, NEVER, &mut ignore).unwrap();
    assert_eq!(measured.interrupted, None);
    assert_eq!(measured.records.len(), 75);
    for record in &measured.records {
        assert_eq!(record.outcome, RecordOutcome::Answered, "{record:?}");
        assert!(record.sent.unwrap() <= record.replied, "{record:?}");
    }
}

/// A port of the loopback that nobody uses.
fn free_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

fn resolved(text: &str, size: usize) -> Endpoint {
    let endpoint = Endpoint::resolve(text, std::path::Path::new("")).unwrap();
    endpoint.with_message_size(size)
}

#[test]
fn requests_and_replies_are_datagrams() {
    let endpoint = resolved(&format!("udp:127.0.0.1:{}", free_port()), 512);
    let _server = SyntheticService::start(endpoint.clone(), Scheduling::Fifo);
    all_are_answered(&two_tasks(Protocol::Synthetic, &endpoint));
}

#[test]
fn replies_are_as_long_as_requests_and_garbage_gets_none() {
    let address = format!("127.0.0.1:{}", free_port());
    let endpoint = resolved(&format!("udp:{address}"), 64);
    let _server = SyntheticService::start(endpoint, Scheduling::Fifo);
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.connect(&address).unwrap();
    let request = WorkRequest {
        id: 5,
        execution: Duration::ZERO,
        priority: 0,
    };
    client.send(b"no request").unwrap();
    client.send(&[0xff; 200]).unwrap();
    let mut message = request.to_bytes().to_vec();
    message.resize(333, 0xaa);
    client.send(&message).unwrap();
    let mut reply = [0; 1_000];
    assert_eq!(client.recv(&mut reply).unwrap(), 333);
    let frame = reply.first_chunk().unwrap();
    assert_eq!(WorkReply::from_bytes(frame).unwrap().id, 5);
    assert!(reply[24..333].iter().all(|byte| *byte == 0), "echoed bytes");
}

#[test]
fn lost_datagrams_are_counted_and_hold_up_nothing() {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    server
        .set_read_timeout(Some(std::time::Duration::from_millis(50)))
        .unwrap();
    let endpoint = resolved(&format!("udp:{}", server.local_addr().unwrap()), 64);
    let stop = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        // Answers every request but each third one.
        scope.spawn(|| {
            let mut message = [0; 100];
            while !stop.load(Ordering::Relaxed) {
                let Ok((_, peer)) = server.recv_from(&mut message) else {
                    continue;
                };
                let request = WorkRequest::from_bytes(message.first_chunk().unwrap()).unwrap();
                let reply = WorkReply {
                    id: request.id,
                    worked: Duration::ZERO,
                    too_long: false,
                };
                if request.id % 3 != 2 {
                    server.send_to(&reply.to_bytes(), peer).unwrap();
                }
            }
        });
        let mut plan = two_tasks(Protocol::Synthetic, &endpoint);
        plan.drain = ms(300);
        let measured = measure(&plan, NEVER, &mut ignore);
        stop.store(true, Ordering::Relaxed);
        measured.unwrap()
    });
    assert_eq!(measured.interrupted, None);
    assert_eq!(
        (measured.counts.released, measured.counts.unanswered),
        (75, 25)
    );
}

#[test]
fn requests_and_replies_are_messages_of_topics() {
    let endpoint = resolved(&format!("topic:udp:127.0.0.1:{}", free_port()), 64);
    let _server = SyntheticService::start(endpoint.clone(), Scheduling::Fifo);
    all_are_answered(&two_tasks(Protocol::Synthetic, &endpoint));
}

#[test]
fn topics_without_a_service_say_so() {
    let endpoint = resolved(&format!("topic:udp:127.0.0.1:{}", free_port()), 64);
    let plan = two_tasks(Protocol::Synthetic, &endpoint);
    let error = measure(&plan, NEVER, &mut ignore).unwrap_err().to_string();
    assert!(
        error.contains("no service answered on these topics"),
        "{error}"
    );
}

#[test]
fn the_kernel_answers_echo_requests() {
    let text = "127.0.0.1";
    let mut service = service(
        Protocol::IcmpEcho,
        &[("ping", task(periodic(ms(4), ms(0)), us(10)))],
    );
    service.endpoint = text.into();
    service.message_size = Some(512);
    let endpoint = Endpoint::of_service(&service, std::path::Path::new("")).unwrap();
    if let Err(error) = await_service(&endpoint, Protocol::IcmpEcho, ms(10_000), NEVER) {
        let text = error.to_string();
        assert!(
            text.contains("permitted") || text.contains("denied"),
            "{text}"
        );
        eprintln!("SKIP echo requests: needs CAP_NET_RAW or a net.ipv4.ping_group_range");
        return;
    }
    all_are_answered(&plan(&service, &endpoint, ms(0), ms(300)));
}
