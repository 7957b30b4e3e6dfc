//! Chains of descriptions: verdicts, splits, and what keeps a chain from having a bound.

use tailbound_assessment::analysis::analyze;
use tailbound_assessment::chains::ChainVerdict;
use tailbound_assessment::schedulability::DeadlineVerdict;
use tailbound_model::InputFiles;
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
