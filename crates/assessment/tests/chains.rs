//! Chains of descriptions: verdicts, splits, and what keeps a chain from having a bound.

use tailbound_analysis::chains::LULLS;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::analysis::analyze;
use tailbound_assessment::chains::ChainVerdict;
use tailbound_assessment::schedulability::DeadlineVerdict;
use tailbound_assessment::simulation::{SimulationAnswer, SimulationQuery, simulate};
use tailbound_model::InputFiles;
use tailbound_simulator::host::{HostQuery, simulate_host};
use tailbound_time::Duration;

const ROVER: &str = r#"
schema_version = 1
name = "rover"
[hosts.rover]
cpus = [0]
major_frame = "10ms"

[domains.eye]
kind = "process"
reservation = { backend = "time-partitions", cpus = [0], windows = [{ offset = "0ms", length = "2ms" }] }
[domains.eye.tasks.see]
arrivals = { kind = "periodic", period = "10ms" }
execution_time = { kind = "constant", value = "1ms" }

[domains.arm]
kind = "process"
reservation = { backend = "time-partitions", cpus = [0], windows = [{ offset = "2ms", length = "3ms" }] }
scheduling = "rate-monotonic"
[domains.arm.tasks.act]
arrivals = { kind = "periodic", period = "10ms", offset = "2ms" }
execution_time = { kind = "constant", value = "1ms" }
[domains.arm.tasks.note]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "500us" }

[topics.sight]
publishers = ["eye/see"]
subscribers = ["arm/act"]
size = 8
delay = { most = "100us" }

[topics.deed]
publishers = ["arm/act"]
subscribers = ["arm/note"]
size = 8

[chains.grip]
path = ["eye/see", "arm/act"]
data_age = "13ms"

[chains.log]
path = ["arm/act", "arm/note"]
reaction_time = "100ms"
"#;

fn chains(text: &str) -> Vec<ChainVerdict> {
    let checked = tailbound_analysis::FORMAT.check(text, "rover.toml");
    assert!(!checked.problems.has_errors(), "{}", checked.problems);
    let description = checked.description.unwrap();
    let analysis = analyze(&description, &InputFiles::default()).unwrap();
    analysis.chains
}

fn chain(text: &str, name: &str) -> ChainVerdict {
    let mut all = chains(text).into_iter();
    all.find(|one| one.chain == name).unwrap()
}

fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

#[test]
fn windows_in_the_order_of_the_data_make_a_chain_short() {
    let grip = chain(ROVER, "grip");
    let answer = grip.answer.unwrap();
    // A cause right after the read at 0 is read at 10, published at 11, read at 12 and in effect at 13.
    assert_eq!(answer.bound, us(13_000));
    assert_eq!(grip.verdict, DeadlineVerdict::Met);
    // 10 + 9 for the eye (which comes as its window closes), 0.1, and 10 + 8 for the arm.
    assert_eq!(answer.baseline, us(37_100));
    // In the other order, a message waits for the next frame.
    let swapped = ROVER.replace(
        "windows = [{ offset = \"0ms\", length = \"2ms\" }]",
        "windows = [{ offset = \"5ms\", length = \"2ms\" }]",
    );
    let grip = chain(&swapped, "grip");
    assert_eq!(grip.answer.unwrap().bound, us(18_000));
    assert_eq!(grip.verdict, DeadlineVerdict::Missed);
    assert!(grip.why.unwrap().contains("5ms too much"));
}

#[test]
fn a_chain_is_longer_by_the_switch_into_a_window() {
    let with_overheads = |overheads: &str| {
        let host = "major_frame = \"10ms\"\n";
        let text = ROVER.replace(host, &format!("{host}overheads = {{ {overheads} }}\n"));
        chain(&text, "grip").answer.unwrap()
    };
    let quick = with_overheads("interrupt = \"5us\"");
    let slow = with_overheads("context_switch = \"70us\", scheduler_invocation = \"30us\"");
    // The read at 0 may come before the switch has taken so long, and the effect at 13 may come behind it.
    assert_eq!(slow.bound, quick.bound + us(100));
    // The response of the eye, which comes as its window closes, and that of the arm.
    assert_eq!(slow.baseline, quick.baseline + us(200));
}

#[test]
fn a_reader_below_its_publisher_in_one_domain_reads_in_the_next_of_its_own_jobs() {
    let log = chain(ROVER, "log");
    let answer = log.answer.unwrap();
    // A cause right after the read at 12 is read at 22 and published at 23. The note that came at 20 may begin at 22, as the
    // window opens; the next one begins at 42, behind the job of `act` that arrives with it, and ends at 43.5.
    assert_eq!(answer.bound, us(31_500));
    let parts: Duration = answer.parts.iter().map(|part| part.length).sum();
    assert_eq!(parts, answer.bound);
}

/// The rover with an arm that each sight releases, and without the chain that begins there.
fn released(jitter: &str) -> String {
    let (before, _) = ROVER.split_once("[chains.log]").unwrap();
    before
        .replace("subscribers = [\"arm/act\"]", "released = [\"arm/act\"]")
        .replace(
            "arrivals = { kind = \"periodic\", period = \"10ms\", offset = \"2ms\" }",
            &format!("arrivals = {{ kind = \"periodic\", period = \"10ms\" }}\n{jitter}"),
        )
}

#[test]
fn what_keeps_a_chain_from_a_bound_is_said() {
    let why = |from: &str, to: &str| {
        let text = ROVER.replace(from, to);
        assert_ne!(text, ROVER, "{from}");
        let grip = chain(&text, "grip");
        assert_eq!(grip.verdict, DeadlineVerdict::Undecided);
        grip.why.unwrap()
    };
    let size = "size = 8\ndelay";
    let lifespan = why(size, "size = 8\nquality = { lifespan = \"10ms\" }\ndelay");
    assert!(lifespan.contains("their lifespan is 10ms"), "{lifespan}");
    let contract = why(
        size,
        "size = 8\ncontract = { messages = 1, interval = \"10ms\" }\ndelay",
    );
    assert!(contract.contains("may turn messages away"), "{contract}");
    let random = why(
        "{ kind = \"periodic\", period = \"10ms\" }\nexecution_time = { kind = \"constant\", value = \"1ms\" }\n\n[domains.arm]",
        "{ kind = \"poisson\", rate = \"1/s\" }\nexecution_time = { kind = \"constant\", value = \"1ms\" }\n\n[domains.arm]",
    );
    assert!(random.contains("eye/see"), "{random}");
    let released = chain(&released(""), "grip").why.unwrap();
    assert!(released.contains("raise the `jitter`"), "{released}");
}

#[test]
fn a_released_task_whose_promise_holds_begins_with_its_message() {
    let text = released("jitter = \"9ms\"").replace(
        "size = 8\ndelay",
        "size = 8\nquality = { history = 3 }\ndelay",
    );
    let grip = chain(&text, "grip");
    let answer = grip.answer.unwrap();
    // 10 + 1 in the eye's own window, 0.1 under way, and the response time of the arm.
    let response = answer.parts.last().unwrap().length;
    assert_eq!(answer.bound, us(11_100).saturating_add(response));
    // A route of the arm's task that lets less pass than comes.
    let route = "\n[routes.r]\ntask = \"arm/act\"\nfrom = \"sight\"\nto = \"deed\"\ncontract = { messages = 1, interval = \"10ms\" }\n";
    let routed = text.replace(
        "publishers = [\"arm/act\"]\n",
        "publishers = [\"arm/act\"]\ntype_name = \"sight\"\n",
    );
    let why = chain(&format!("{routed}{route}"), "grip").why.unwrap();
    assert!(why.contains("route `r` may turn messages away"), "{why}");
    let without_history = text.replace("quality = { history = 3 }\n", "");
    let why = chain(&without_history, "grip").why.unwrap();
    assert!(why.contains("set `history` to"), "{why}");
}

#[test]
fn the_walker_keeps_its_deadlines() {
    let walker = include_str!("../../../examples/walker/walker.toml");
    let all = chains(walker);
    assert_eq!(all.len(), 4);
    for one in all {
        assert_eq!(one.verdict, DeadlineVerdict::Met, "{one:?}");
        let answer = one.answer.unwrap();
        assert!(answer.bound <= answer.baseline);
    }
}

/// Topics from each task to the next one.
fn random_topics(released: &[bool], draw: &mut impl FnMut(u64) -> u64) -> String {
    let mut text = String::new();
    for (task, is_released) in released.iter().enumerate().skip(1) {
        let least = draw(300);
        let takes = match is_released {
            true => "released",
            false => "subscribers",
        };
        text += &format!(
            "[topics.m{task}]\npublishers = [\"d{}/t\"]\n{takes} = [\"d{task}/t\"]\nsize = 8\ntransport = \"udp\"\n\
             quality = {{ history = 8 }}\ndelay = {{ least = \"{least}us\", most = \"{}us\" }}\n",
            task - 1,
            least + draw(900)
        );
    }
    text
}

/// A random system of tasks in windows or on CPUs of their own, on one or two hosts, as a chain.
fn random_chain(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut text = String::from("schema_version = 1\nname = \"random\"\n");
    let (hosts, tasks) = (1 + draw(2), 2 + draw(3));
    let (mut released, mut before) = (Vec::new(), 10);
    let names = &["left", "right"][..hosts as usize];
    for host in names {
        text += &format!("[hosts.{host}]\ncpus = [0, 1, 2, 3]\nmajor_frame = \"10ms\"\n");
    }
    for task in 0..tasks {
        // Both hosts have a task.
        let host = match task {
            0 => names[0],
            1 => names[names.len() - 1],
            _ => names[draw(hosts) as usize],
        };
        // A released task has the period of its publisher, and a jitter above the publisher's response time and the delays.
        let by_message = task > 0 && draw(3) == 0;
        let period = match by_message {
            true => before,
            false => [10, 20, 40, 50][draw(4) as usize],
        };
        let jitter = if by_message {
            "jitter = \"45ms\"\n"
        } else {
            ""
        };
        released.push(by_message);
        before = period;
        let work = 100 + draw(900);
        let offset = draw(period * 1_000);
        let window = match draw(2) {
            0 => format!(
                "[{{ offset = \"{}us\", length = \"2500us\" }}]",
                100 * draw(75)
            ),
            _ => "[{ offset = \"0ms\", length = \"9ms\" }]".to_owned(),
        };
        // Each task has a CPU for itself, so that windows do not overlap.
        text += &format!(
            "[domains.d{task}]\nkind = \"process\"\nhost = \"{host}\"\n\
             reservation = {{ backend = \"time-partitions\", cpus = [{task}], windows = {window} }}\n\
             [domains.d{task}.tasks.t]\n{jitter}\
             arrivals = {{ kind = \"periodic\", period = \"{period}ms\", offset = \"{offset}us\" }}\n\
             execution_time = {{ kind = \"uniform\", min = \"50us\", max = \"{work}us\" }}\n"
        );
    }
    text += &random_topics(&released, &mut draw);
    let path: Vec<String> = (0..tasks).map(|task| format!("\"d{task}/t\"")).collect();
    text + &format!(
        "[chains.c]\npath = [{}]\ndata_age = \"10s\"\n",
        path.join(", ")
    )
}

fn simulated(text: &str, seed: u64) -> SimulationAnswer {
    let checked = tailbound_analysis::FORMAT.check(text, "random.toml");
    assert!(!checked.problems.has_errors(), "{}", checked.problems);
    let query = SimulationQuery {
        mode: None,
        variant: None,
        seed: Some(seed),
        warm_up: Duration::from_millis(500),
        duration: Duration::from_secs(4),
    };
    let one_host = |query: &HostQuery<'_>| Ok::<_, AssessmentError>(simulate_host(query).unwrap());
    let description = checked.description.unwrap();
    simulate(&description, &InputFiles::default(), &query, one_host).unwrap()
}

#[test]
fn simulated_chains_stay_below_their_bounds_and_come_near_them() {
    let (mut nearest, mut by_messages): (f64, usize) = (0.0, 0);
    for seed in 1..60 {
        let text = random_chain(seed);
        let analysed = chain(&text, "c");
        // A window may give its task too little, or in a phase that the random offsets do not have.
        let Some(answer) = analysed.answer else {
            continue;
        };
        let simulation = simulated(&text, seed);
        let times = simulation.chains[0].outcome.as_ref().unwrap();
        by_messages += usize::from(text.contains("released"));
        for time in [&times.data_age, &times.reaction_time] {
            let longest = time.max().unwrap().low;
            assert!(
                longest <= answer.bound,
                "{longest} > {}\n{text}",
                answer.bound
            );
            nearest = nearest.max(longest.as_secs_f64() / answer.bound.as_secs_f64());
        }
    }
    assert!(by_messages >= 5, "{by_messages} chains have released tasks");
    assert!(nearest > 0.8, "the nearest is {nearest} of its bound");
}

#[test]
fn a_simulation_depends_on_its_seed_alone() {
    let text = random_chain(7);
    assert_eq!(simulated(&text, 3), simulated(&text, 3));
    assert_ne!(simulated(&text, 3).chains, simulated(&text, 4).chains);
}

#[test]
fn contracts_drop_or_hold_back_in_a_simulation() {
    let with = |violation: &str| {
        let contract = format!(
            "size = 8\nquality = {{ history = 2 }}\ncontract = {{ messages = 10, interval = \"100ms\", violation = \"{violation}\" }}\ndelay"
        );
        // The eye publishes at the least distance of its jobs, which vary within the window.
        let text = ROVER.replace("size = 8\ndelay", &contract).replace(
            "{ kind = \"constant\", value = \"1ms\" }\n\n[domains.arm]",
            "{ kind = \"uniform\", min = \"100us\", max = \"1900us\" }\n\n[domains.arm]",
        );
        assert!(text.contains("uniform"));
        simulated(&text, 1)
            .topics
            .into_iter()
            .find(|one| one.topic == "sight")
            .unwrap()
    };
    let dropped = with("drop");
    assert!(dropped.dropped > 0 && dropped.held_back == 0, "{dropped:?}");
    let held = with("hold-back");
    assert!(
        held.held_back > 0 && held.dropped < dropped.dropped,
        "{held:?}"
    );
    assert!(held.read <= held.published);
}

/// The random chain with another publisher of one of its topics that are read by a clock; `None` where there is none.
fn chain_with_rival(seed: u64) -> Option<String> {
    let text = random_chain(seed);
    let mut state = seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let end = "\"]\nsubscribers";
    let places: Vec<usize> = text.match_indices(end).map(|(at, _)| at).collect();
    let place = *places.get(draw(places.len().max(1) as u64) as usize)?;
    let (before, behind) = text.split_at(place);
    let text = format!("{before}\", \"rival/t{behind}");
    let period = [20, 40, 50, 100, 400][draw(5) as usize];
    let arrivals = match draw(4) {
        0 => "{ kind = \"sporadic\", min_gap = \"700ms\", max_gap = \"900ms\" }".to_owned(),
        _ => format!(
            "{{ kind = \"periodic\", period = \"{period}ms\", offset = \"{}us\" }}",
            draw(period * 1_000)
        ),
    };
    let rival = format!(
        "[domains.rival]\nkind = \"process\"\nhost = \"left\"\n\
         reservation = {{ backend = \"time-partitions\", cpus = [4], windows = [{{ offset = \"0ms\", length = \"9ms\" }}] }}\n\
         [domains.rival.tasks.t]\narrivals = {arrivals}\n\
         execution_time = {{ kind = \"uniform\", min = \"50us\", max = \"{}us\" }}\n[topics.m1]",
        100 + draw(900)
    );
    let text = text.replace("cpus = [0, 1, 2, 3]", "cpus = [0, 1, 2, 3, 4]");
    Some(text.replacen("[topics.m1]", &rival, 1))
}

#[test]
fn simulated_chains_with_rivals_stay_below_both_bounds() {
    let (mut bounded, mut unbounded, mut nearest): (usize, usize, f64) = (0, 0, 0.0);
    let mut by_lulls = 0;
    for seed in 1..120 {
        let Some(text) = chain_with_rival(seed) else {
            continue;
        };
        let analysed = chain(&text, "c");
        let Some(answer) = &analysed.answer else {
            continue;
        };
        let simulation = simulated(&text, seed);
        let Ok(times) = &simulation.chains[0].outcome else {
            assert_eq!(analysed.reaction_bound(), None, "{text}");
            continue;
        };
        let longest = times.data_age.max().unwrap().low;
        assert!(
            longest <= answer.bound,
            "{longest} > {}\n{text}",
            answer.bound
        );
        let displaced = analysed.displaced.as_ref().unwrap();
        assert_eq!(displaced.by, ["rival/t"]);
        let Some(bound) = analysed.reaction_bound() else {
            unbounded += 1;
            continue;
        };
        bounded += 1;
        by_lulls += usize::from(displaced.method == Some(LULLS));
        let longest = times.reaction_time.max().unwrap().low;
        assert!(longest <= bound, "{longest} > {bound}\n{text}");
        nearest = nearest.max(longest.as_secs_f64() / bound.as_secs_f64());
    }
    let kinds = (bounded, unbounded, by_lulls);
    assert!(bounded > 10 && unbounded > 10 && by_lulls > 2, "{kinds:?}");
    assert!(nearest > 0.8, "the nearest is {nearest} of its bound");
}

#[test]
fn a_rival_bounds_the_data_age_as_before_and_may_keep_causes_waiting() {
    // A second eye that sees each 20 ms, in the window behind the first one, in front of the arm.
    let rival = "[domains.second]\nkind = \"process\"\n\
        reservation = { backend = \"time-partitions\", cpus = [0], windows = [{ offset = \"5ms\", length = \"2ms\" }] }\n\
        [domains.second.tasks.see]\narrivals = { kind = \"periodic\", period = \"20ms\", offset = \"5ms\" }\n\
        execution_time = { kind = \"constant\", value = \"1ms\" }\n\n[topics.sight]";
    let with_rival = |limit: &str| {
        let text = ROVER.replace("[topics.sight]", rival);
        let text = text.replace("[\"eye/see\"]\nsubs", "[\"eye/see\", \"second/see\"]\nsubs");
        chain(&text.replace("data_age = \"13ms\"", limit), "grip")
    };
    let alone = chain(ROVER, "grip").answer;
    let grip = with_rival("data_age = \"13ms\"\nreaction_time = \"13ms\"");
    assert_eq!(grip.answer, alone);
    assert_eq!(grip.verdict, DeadlineVerdict::Met);
    // The second eye publishes at 6, and the first one at 11, before the arm reads at 12.
    assert_eq!(grip.reaction_bound(), Some(us(13_000)));
    let late = with_rival("reaction_time = \"12ms\"");
    assert_eq!(late.verdict, DeadlineVerdict::Missed);
    // The arm between the two eyes' windows reads the first one's data; in front of both, it reads the last one's.
    let text = ROVER
        .replace("[topics.sight]", rival)
        .replace("[\"eye/see\"]\nsubs", "[\"eye/see\", \"second/see\"]\nsubs")
        .replace(
            "period = \"20ms\", offset = \"5ms\"",
            "period = \"10ms\", offset = \"5ms\"",
        )
        .replace(
            "windows = [{ offset = \"0ms\", length = \"2ms\" }]",
            "windows = [{ offset = \"8ms\", length = \"2ms\" }]",
        )
        .replace(
            "windows = [{ offset = \"5ms\", length = \"2ms\" }]",
            "windows = [{ offset = \"0ms\", length = \"2ms\" }]",
        )
        .replace(
            "data_age = \"13ms\"",
            "data_age = \"50ms\"\nreaction_time = \"50ms\"",
        );
    let grip = chain(&text, "grip");
    assert_eq!(grip.verdict, DeadlineVerdict::Undecided);
    let why = grip.why.unwrap();
    assert!(why.contains("second/see may displace"), "{why}");
}
