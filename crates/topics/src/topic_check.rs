//! The checks of `[topics]` against the rest of the description.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use tailbound_messages::{Contract, ExcessRule};
use tailbound_model::{ArrivalCurve, Arrivals, Check, IsolatedNamespace, KeyPath, Section, Task};
use tailbound_time::Duration;

use crate::{
    GuardedInterface, TaskName, TopicDescription, TopicGuard, Topics, Traffic, TransportKind,
};

/// The highest number of a domain of DDS: beyond it the port numbers of DDS end.
const HIGHEST_DDS_DOMAIN: u16 = 230;

impl Section for Topics {
    const KEY: &'static str = "topics";

    fn check(&self, check: &mut Check<'_>) {
        for (name, topic) in &self.0 {
            let place = KeyPath::root().key(Self::KEY).key(name);
            ends(check, &place, topic);
            numbers(check, &place, topic);
            for (index, publisher) in topic.publishers.iter().enumerate() {
                let here = place.key("publishers").index(index);
                if let Some(task) = task_of(check, publisher) {
                    publisher_keeps(check, &here, &place, topic, &task);
                }
            }
            reach(check, &place, topic);
            isolation(check, &place, topic);
            guard(check, &place.key("guard"), topic);
            promises(check, &place, topic);
        }
        data_spaces(self, check);
        released_once(self, check);
        no_loop_of_releases(self, check);
    }
}

/// Checks addresses, and that two topics of one data space have two names there.
fn data_spaces(topics: &Topics, check: &mut Check<'_>) {
    let mut names = BTreeMap::new();
    for (key, topic) in &topics.0 {
        let place = KeyPath::root().key(Topics::KEY).key(key);
        if let Some(address) = &topic.address {
            address_fits(check, &place.key("address"), topic.transport, address);
        }
        let name = topic.name.as_ref().unwrap_or(key);
        let space = (topic.data_space(), domain_of_memory(topic), name);
        if let Some(earlier) = names.insert(space, key) {
            check.error(
                &place,
                format!("topic `{earlier}` has the name `{name}` in the same data space"),
                "give one of them another `name`, `address` or `transport`",
            );
        }
    }
}

/// Complains of an address that the transport does not have.
fn address_fits(check: &mut Check<'_>, here: &KeyPath, transport: TransportKind, address: &str) {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    match transport {
        TransportKind::Udp if !is_interface_with_port(address) => check.error(
            here,
            format!("\"{address}\" is no interface with a port"),
            "write the address or the name of the interface, such as \"127.0.0.1:7410\" or \"eth0:7410\"",
        ),
        TransportKind::CycloneDds | TransportKind::Rtps if !is_dds_address(address) => check.error(
            here,
            format!("\"{address}\" is no interface with the number of a domain"),
            "write the address or the name of the interface and a domain from 0 to 230, such as \"127.0.0.1:0\" or \"eth0:0\"",
        ),
        TransportKind::Zenoh if !are_addresses(address) => check.error(
            here,
            format!("\"{address}\" is no list of addresses with ports"),
            "write an address for each program, such as \"127.0.0.1:7447,127.0.0.1:7448\"",
        ),
        TransportKind::SharedMemory | TransportKind::Zeromq
            if address.is_empty() || address.len() > 32 || !address.chars().all(is_plain) =>
        {
            check.error(
                here,
                format!("\"{address}\" is no name of a data space"),
                "write 1 to 32 letters, digits, `-` and `_`, such as \"inside\", or transport = \"udp\"",
            );
        }
        transport if transport.default_address().is_none() => check.error(
            here,
            format!("the transport `{}` has no address", transport.name()),
            "leave it out, or write transport = \"udp\"",
        ),
        _ => {}
    }
}

fn is_interface_with_port(address: &str) -> bool {
    interface_and_number(address).is_some_and(|port| port > 0)
}

/// Whether an address is an interface with the number of a domain of DDS.
fn is_dds_address(address: &str) -> bool {
    interface_and_number(address).is_some_and(|domain| domain <= HIGHEST_DDS_DOMAIN)
}

/// The number behind the name or the IPv4 address of an interface; `None` if the address has another form.
fn interface_and_number(address: &str) -> Option<u16> {
    let (interface, number) = address.rsplit_once(':')?;
    // IFNAMSIZ of the kernel, less the zero at the end.
    let is_name = (1..=15).contains(&interface.len())
        && !interface.contains(|letter: char| letter.is_whitespace() || "/:".contains(letter))
        && !interface.starts_with(|letter: char| letter.is_ascii_digit());
    let is_interface = is_name || interface.parse::<Ipv4Addr>().is_ok();
    number.parse().ok().filter(|_| is_interface)
}

fn are_addresses(list: &str) -> bool {
    let mut addresses = list.split(',');
    addresses.all(|address| address.trim().parse::<SocketAddr>().is_ok())
}

/// The domain in whose memory the messages of a topic are, where they stay in one program.
fn domain_of_memory(topic: &TopicDescription) -> Option<String> {
    let is_inside = topic.transport == TransportKind::InProcess;
    let first = topic.publishers.first().filter(|_| is_inside)?;
    Some(TaskName::parse(first)?.domain)
}

/// The own task of that name; `None` if there is none.
fn task_of(check: &Check<'_>, name: &str) -> Option<Task> {
    TaskName::parse(name)?.task_in(check.description()).cloned()
}

/// Complains unless `text` is the name of an own task, and says whether it is one.
pub(crate) fn reference(check: &mut Check<'_>, place: &KeyPath, text: &str) -> bool {
    let Some(name) = TaskName::parse(text) else {
        check.error(
            place,
            format!("\"{text}\" names no task"),
            "write the domain and its task, such as \"camera/grab\"",
        );
        return false;
    };
    let domains = check.names("domains");
    if !domains.contains(&name.domain.as_str()) {
        check.reference(place, "domain", &name.domain, &domains);
        return false;
    }
    let services = &check.description().services;
    let mut served = services.iter();
    let served = served.find(|(_, service)| {
        service.domain == name.domain && service.tasks.contains_key(&name.task)
    });
    if let Some((service, _)) = served {
        check.error(
            place,
            format!(
                "task `{}` is one of service `{service}`, whose jobs are requests",
                name.task
            ),
            format!(
                "describe it in [domains.{}.tasks], or name another task",
                name.domain
            ),
        );
        return false;
    }
    let tasks = KeyPath::root()
        .key("domains")
        .key(&name.domain)
        .key("tasks");
    let tasks = check.names_at(&tasks);
    let is_there = tasks.contains(&name.task.as_str());
    if !is_there {
        let what = "task";
        check.reference(place, what, &name.task, &tasks);
    }
    is_there
}

/// Checks the tasks at both ends.
fn ends(check: &mut Check<'_>, place: &KeyPath, topic: &TopicDescription) {
    let lists = [
        ("publishers", &topic.publishers),
        ("subscribers", &topic.subscribers),
        ("released", &topic.released),
    ];
    let mut earlier: BTreeMap<&String, &str> = BTreeMap::new();
    for (key, names) in lists {
        for (index, name) in names.iter().enumerate() {
            let here = place.key(key).index(index);
            if !reference(check, &here, name) {
                continue;
            }
            if let Some(before) = earlier.insert(name, key) {
                check.error(
                    &here,
                    format!("task {name} stands in `{before}` already"),
                    "name a task once: it publishes, reads the newest message, or is released by each",
                );
            }
            one_client(check, &here, name);
        }
    }
    if topic.publishers.is_empty() {
        check.error(
            &place.key("publishers"),
            "nothing publishes the topic",
            "name the task that publishes, as \"domain/task\"",
        );
    }
    if topic.subscribers.is_empty() && topic.released.is_empty() {
        check.warning(
            place,
            "nothing subscribes to the topic",
            "add `subscribers` or `released`, or leave the topic out",
        );
    }
}

/// The jobs of several clients would publish beside each other, and nothing tells their messages apart.
fn one_client(check: &mut Check<'_>, place: &KeyPath, name: &str) {
    let Some(task) = task_of(check, name).filter(|task| task.clients != 1) else {
        return;
    };
    check.error(
        place,
        format!(
            "task {name} has {} clients, and a topic joins single tasks",
            task.clients
        ),
        "leave `clients` of the task out, or describe a task for each",
    );
}

/// Checks sizes, times and qualities.
fn numbers(check: &mut Check<'_>, place: &KeyPath, topic: &TopicDescription) {
    let quality = place.key("quality");
    if let Some(deadline) = topic.quality.deadline {
        check.above_zero(&quality.key("deadline"), "the deadline", deadline);
    }
    if let Some(lifespan) = topic.quality.lifespan {
        check.above_zero(&quality.key("lifespan"), "the lifespan", lifespan);
    }
    if let Some(liveliness) = topic.quality.liveliness {
        let here = quality.key("liveliness").key("lease");
        check.above_zero(&here, "the lease", liveliness.lease);
    }
    if let Some(delay) = topic.delay.filter(|delay| delay.least > delay.most) {
        check.error(
            &place.key("delay").key("least"),
            format!("least {} is longer than most {}", delay.least, delay.most),
            "exchange the two, or correct one",
        );
    }
    if let (Some(delay), Some(lifespan)) = (topic.delay, topic.quality.lifespan)
        && delay.least > lifespan
    {
        check.error(
            &quality.key("lifespan"),
            format!(
                "no message arrives within {lifespan}: the transport takes {} at least",
                delay.least
            ),
            "lengthen the lifespan",
        );
    }
    if let Some(contract) = &topic.contract {
        contract_is_possible(check, &place.key("contract"), topic.size, contract);
    }
}

fn contract_is_possible(check: &mut Check<'_>, place: &KeyPath, size: u32, contract: &Contract) {
    if contract.messages == 0 {
        check.error(
            &place.key("messages"),
            "the contract admits no message",
            "admit one at least, or leave the publisher out",
        );
    }
    check.above_zero(&place.key("interval"), "the interval", contract.interval);
    if let Some(bytes) = contract.bytes.filter(|bytes| *bytes < u64::from(size)) {
        check.error(
            &place.key("bytes"),
            format!("the contract admits {bytes} bytes, and the longest message has {size}"),
            "admit one message at least, or lower `size` of the topic",
        );
    }
    let of_others = contract.messages.saturating_sub(1);
    let shortest = contract.least_distance.checked_mul(u64::from(of_others));
    if shortest.is_none_or(|shortest| shortest >= contract.interval && of_others > 0) {
        check.warning(
            &place.key("least_distance"),
            format!(
                "{} messages with this distance do not fit into an interval of {}",
                contract.messages, contract.interval
            ),
            "lower `messages`, the distance, or lengthen the interval",
        );
    }
}

/// The longest time between two jobs of a law, where there is one.
pub(crate) fn longest_gap(arrivals: &Arrivals) -> Option<Duration> {
    match arrivals {
        Arrivals::Periodic { period, .. } => Some(*period),
        Arrivals::Sporadic { max_gap, .. } => Some(*max_gap),
        _ => None,
    }
}

/// Holds the arrivals of a publisher against the contract and the deadline of its topic.
fn publisher_keeps(
    check: &mut Check<'_>,
    here: &KeyPath,
    place: &KeyPath,
    topic: &TopicDescription,
    task: &Task,
) {
    let gap = longest_gap(&task.arrivals);
    if let (Some(deadline), Some(gap)) = (topic.quality.deadline, gap)
        && deadline < gap
    {
        check.error(
            &place.key("quality").key("deadline"),
            format!("messages are {gap} apart, which is longer than the deadline of {deadline}"),
            format!(
                "lengthen the deadline to \"{gap}\" or more, or shorten the publisher's period"
            ),
        );
    }
    let Some(contract) = topic.contract.filter(|contract| contract.messages > 0) else {
        return;
    };
    let (Some(sent), Some(admitted)) = (
        Traffic::of_task(task, Duration::ZERO),
        Traffic::of_contract(&contract),
    ) else {
        return;
    };
    if let Some(excess) = admitted.excess_of(&[sent]) {
        check.error(
            here,
            format!(
                "{}, and the contract admits {}",
                excess.sent_in_words(),
                excess.admitted
            ),
            "raise `messages` of the contract, or let the task publish less often",
        );
    }
    let bytes = u64::from(topic.size).saturating_mul(u64::from(contract.messages));
    if let Some(admitted) = contract.bytes.filter(|admitted| *admitted < bytes) {
        check.warning(
            &place.key("contract").key("bytes"),
            format!(
                "{} messages of {} bytes make {bytes} bytes, and the contract admits {admitted}",
                contract.messages, topic.size
            ),
            "raise `bytes`, or leave it out",
        );
    }
}

/// Complains of a guard by the kernel that has nothing to enforce.
fn guard(check: &mut Check<'_>, here: &KeyPath, topic: &TopicDescription) {
    if topic.guard != TopicGuard::Kernel {
        return;
    }
    if topic.transport != TransportKind::Udp {
        check.error(
            here,
            format!(
                "the kernel sees no messages of transport `{}`",
                topic.transport.name()
            ),
            "write transport = \"udp\", or leave `guard` out",
        );
    } else if topic
        .address()
        .is_some_and(|address| GuardedInterface::with_port(address).is_none())
    {
        check.error(
            here,
            "the rules of the kernel have no interface of this name",
            "write address = \"ADDRESS:PORT\", such as \"192.0.2.1:7410\", rename the interface, or leave `guard` out",
        );
    }
    match topic.contract {
        None => check.error(
            here,
            "there is no contract to enforce",
            "add a `contract`, or leave `guard` out",
        ),
        Some(contract) if contract.violation == ExcessRule::HoldBack => check.error(
            here,
            "the kernel drops what is beyond the contract, and the contract says that it is held back",
            "write violation = \"drop\" in the contract, or leave `guard` out",
        ),
        Some(_) => {}
    }
}

/// Complains of a topic that would leave a domain isolated in space, or enter it.
fn isolation(check: &mut Check<'_>, place: &KeyPath, topic: &TopicDescription) {
    use IsolatedNamespace::{Mount, Network};
    let passed: &[IsolatedNamespace] = match topic.transport {
        TransportKind::InProcess => return,
        TransportKind::SharedMemory => &[Mount],
        TransportKind::Zeromq => &[Mount, Network],
        TransportKind::Udp
        | TransportKind::Zenoh
        | TransportKind::CycloneDds
        | TransportKind::Rtps => &[Network],
    };
    let description = check.description();
    let obstacle = |domain: &str| {
        let isolation = description.domains.get(domain)?.isolation.as_ref()?;
        passed.iter().find(|one| isolation.has(**one))
    };
    let ends = topic.publishers.iter().chain(&topic.subscribers);
    let domains = ends
        .chain(&topic.released)
        .filter_map(|name| Some(TaskName::parse(name)?.domain));
    let domains: BTreeSet<String> = domains.collect();
    let mut isolated = domains
        .iter()
        .filter_map(|domain| Some((domain, obstacle(domain)?)));
    if let Some((isolated, namespace)) = isolated.next()
        && domains.len() > 1
    {
        check.error(
            &place.key("transport"),
            format!("`{}` does not pass the isolation of `{isolated}`", topic.transport.name()),
            format!(
                "join the domains by a port ([ports]), or leave \"{}\" out of domains.{isolated}.isolation.namespaces",
                namespace.name()
            ),
        );
    }
}

/// Complains of a transport that does not reach a subscriber.
fn reach(check: &mut Check<'_>, place: &KeyPath, topic: &TopicDescription) {
    let (what, remedy) = match topic.transport {
        TransportKind::SharedMemory => (
            "shared memory",
            "choose another transport, such as transport = \"udp\"",
        ),
        TransportKind::InProcess => (
            "the memory of one program",
            "choose another transport, such as transport = \"shared-memory\" or \"udp\"",
        ),
        _ => return,
    };
    let description = check.description();
    let place_of = |name: &String| {
        let task = TaskName::parse(name)?;
        match topic.transport {
            TransportKind::InProcess => Some(format!("in domain `{}`", task.domain)),
            _ => Some(format!("on host `{}`", task.host_in(description)?)),
        }
    };
    let takers = [
        ("publishers", &topic.publishers),
        ("subscribers", &topic.subscribers),
        ("released", &topic.released),
    ];
    // Where all must be in one place, that of the first publisher counts.
    let (takers, senders) = match topic.transport {
        TransportKind::InProcess => (&takers[..], 1),
        _ => (&takers[1..], usize::MAX),
    };
    for publisher in topic.publishers.iter().take(senders) {
        let Some(from) = place_of(publisher) else {
            continue;
        };
        for (key, names) in takers {
            for (index, name) in names.iter().enumerate() {
                let Some(to) = place_of(name).filter(|to| *to != from) else {
                    continue;
                };
                check.error(
                    &place.key(*key).index(index),
                    format!("{what} does not reach from {publisher} {from} to {name} {to}"),
                    remedy,
                );
            }
        }
    }
}

/// Holds the arrivals of released tasks, which are their promise, against what the publishers may send.
fn promises(check: &mut Check<'_>, place: &KeyPath, topic: &TopicDescription) {
    let publishers = topic.publishers.iter();
    let publishers: Option<Vec<Task>> = publishers.map(|name| task_of(check, name)).collect();
    let Some(publishers) = publishers else {
        return;
    };
    let by_contract = || topic.contract.as_ref().and_then(Traffic::of_contract);
    for (index, name) in topic.released.iter().enumerate() {
        let here = place.key("released").index(index);
        let Some(task) = task_of(check, name) else {
            continue;
        };
        let Some(promise) = Traffic::of_task(&task, task.jitter) else {
            unbounded_promise(check, &here, name, &task);
            continue;
        };
        let sent = publishers.iter().map(|publisher| {
            let by_task = Traffic::of_task(publisher, Duration::ZERO);
            match by_task {
                Some(by_task) => Some(by_task.limited_by(by_contract())),
                None => by_contract(),
            }
        });
        let Some(sent) = sent.collect::<Option<Vec<Traffic>>>() else {
            check.error(
                &here,
                format!("nothing bounds the messages that release {name}, and its arrivals promise a bound"),
                "add a `contract` to the topic, or give the publisher arrivals with a least distance",
            );
            continue;
        };
        if let Some(excess) = promise.excess_of(&sent) {
            check.error(
                &here,
                format!("{}, and the arrivals of {name} admit {}", excess.sent_in_words(), excess.admitted),
                format!(
                    "shorten the distance between the arrivals of {name}, or raise its `jitter`, by which jobs may \
                     come closer together"
                ),
            );
        }
    }
}

fn unbounded_promise(check: &mut Check<'_>, here: &KeyPath, name: &str, task: &Task) {
    if ArrivalCurve::of(&task.arrivals).is_none() {
        check.warning(
            here,
            format!("the arrivals of {name} promise nothing, so that nothing bounds its response time"),
            "describe arrivals with a least distance, such as { kind = \"periodic\", period = \"10ms\" }",
        );
    }
}

/// A job takes one message, so one topic releases a task.
fn released_once(topics: &Topics, check: &mut Check<'_>) {
    let mut by: BTreeMap<&String, &String> = BTreeMap::new();
    for (name, topic) in &topics.0 {
        for (index, task) in topic.released.iter().enumerate() {
            let here = KeyPath::root().key(Topics::KEY).key(name);
            match by.insert(task, name) {
                Some(other) if other != name => check.error(
                    &here.key("released").index(index),
                    format!("topic `{other}` releases task {task}, too"),
                    "let one topic release the task, and name the task in `subscribers` of the other",
                ),
                _ => {}
            }
        }
    }
}

/// Messages that release each other in a circle never end.
fn no_loop_of_releases(topics: &Topics, check: &mut Check<'_>) {
    for (name, topic) in &topics.0 {
        for (index, task) in topic.released.iter().enumerate() {
            let mut reached: Vec<&String> = vec![task];
            let mut next = 0;
            while let Some(publisher) = reached.get(next).copied() {
                next += 1;
                let topics = topics.0.values();
                let sent = topics.filter(|topic| topic.publishers.contains(publisher));
                for released in sent.flat_map(|topic| &topic.released) {
                    if !reached.contains(&released) {
                        reached.push(released);
                    }
                }
            }
            let here = KeyPath::root().key(Topics::KEY).key(name);
            let back = topic.publishers.iter().find(|one| reached.contains(one));
            if let Some(publisher) = back {
                check.error(
                    &here.key("released").index(index),
                    format!("messages go round without end: {task} is released by {publisher}, which its own messages release"),
                    "let one of the tasks on the circle read the newest message: name it in `subscribers`",
                );
            }
        }
    }
}
