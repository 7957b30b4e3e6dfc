//! Texts that are wrong: each error names file, line, key, and what would be right; no text is a crash.

use proptest::prelude::*;
use tailbound_execution_time::{FrequencyModel, RunTable, SetPointNotation, read_set_points};

const RUNS: &str = "program,cpu_hz,mem_hz,time_ns,instructions,misses\n\
    a,1000000,2000000,900,10,3\nb,1000000,2000000,800,20,1\nc,3000000,2000000,700,30,2\n\
    a,3000000,2000000,400,10,3\nb,3000000,2000000,300,20,1\nc,1000000,2000000,1700,30,2\n";

fn parse(text: &str) -> Result<RunTable, String> {
    RunTable::parse("runs.csv", text, &mut |name| match name {
        "good.perf" => Ok("1.5,msec,task-clock,1,100.00,,\n7,,instructions,1,100.00,,\n".into()),
        "other.perf" => Ok("1.5,msec,task-clock,1,100.00,,\n7,,cycles,1,100.00,,\n".into()),
        _ => Err("no such file".into()),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn errors_of_recordings_name_the_place_and_the_remedy() {
    let cases = [
        ("", "runs.csv, `program`: the header lacks this column"),
        ("program,time_ns\n", "runs.csv: there is no run"),
        ("program,time_ns\na,5\n", "runs.csv: no event is counted"),
        (
            "program,mem_hz,time_ns,x\na,1,5,1\n",
            "runs.csv, `cpu_hz`: the header lacks this column",
        ),
        (
            "program,cpu_hz,x\na,1,5\n",
            "runs.csv, `time_ns`: the header lacks this column",
        ),
        (
            "# why\nprogram,cpu_hz,time_ns,x\na,1,5,1\na,1,5,1.5\n",
            "runs.csv, line 4, `x`: \"1.5\" is no whole number",
        ),
        (
            "program,cpu_hz,time_ns,x\na,0,5,1\n",
            "runs.csv, line 2, `cpu_hz`: 0 is no frequency",
        ),
        (
            "program,cpu_hz,time_ns,x\na,1,0,1\n",
            "runs.csv, line 2, `time_ns`: the run took no time",
        ),
        (
            "program,cpu_hz,time_ns,x\n,1,1,1\n",
            "runs.csv, line 2, `program`: the program has no name",
        ),
        (
            "program,cpu_hz,time_ns,x\na,1,1\n",
            "runs.csv, line 2: there are 3 fields under a header of 4",
        ),
        (
            "program,cpu_hz,time_ns,x,x\n",
            "runs.csv, `x`: the header has this column twice",
        ),
        (
            "program,cpu_hz,perf_stat\na,1,none.perf\n",
            "runs.csv, line 2, `perf_stat`: \"none.perf\" cannot be read",
        ),
        (
            "program,cpu_hz,perf_stat\na,1,good.perf\nb,1,other.perf\n",
            "other.perf, line 3, `cycles`: this event is counted",
        ),
        (
            "program,cpu_hz,perf_stat,x\na,1,good.perf,1\n",
            "runs.csv, `x`: this event is in a column of its own",
        ),
    ];
    for (text, message) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(message), "{text}: {error}");
        assert!(error.contains("; "), "no remedy: {error}");
    }
}

#[test]
fn perf_files_give_times_and_counts() {
    let recording = parse("program,cpu_hz,perf_stat\na,1,good.perf\n").unwrap();
    assert_eq!(recording.counters, ["instructions"]);
    assert_eq!(recording.runs[0].counts, [7]);
    assert_eq!(recording.runs[0].time.as_nanos(), 1_500_000);
}

#[test]
fn too_little_data_is_refused() {
    let fit = |text: &str| {
        FrequencyModel::fit(&parse(text).unwrap(), None, 4)
            .unwrap_err()
            .to_string()
    };
    let five: String = RUNS
        .lines()
        .take(6)
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert!(fit(&five).starts_with(
        "runs.csv: 2 programs were recorded at two set points or more; record at least 3"
    ));
    let one_frequency = RUNS.replace("3000000", "1000000");
    assert!(fit(&one_frequency).starts_with("runs.csv: the core has one frequency in all runs"));
    assert!(fit("program,time_ns,x\na,1,1\n").starts_with("runs.csv: there is no column `cpu_hz`"));
}

#[test]
fn set_points_are_named_unambiguously() {
    let recording = parse(
        "program,cpu_hz,mem_hz,time_ns,x\na,1000000,1000000,9,1\na,1000000,2000000,8,1\na,2000000,2000000,7,1\n",
    )
    .unwrap();
    let at = |text: &str| {
        let notation: SetPointNotation = text.parse().unwrap();
        recording
            .workload(None, Some(&notation))
            .map(|workload| workload.time.as_nanos())
            .map_err(|error| error.to_string())
    };
    assert_eq!(at("2MHz"), Ok(7));
    assert_eq!(at("cpu=1MHz,mem=2MHz"), Ok(8));
    assert!(
        at("1MHz")
            .unwrap_err()
            .contains("2 set points of the model have cpu=1MHz; name one of: cpu=1MHz,mem=1MHz;")
    );
    assert!(
        at("3MHz")
            .unwrap_err()
            .contains("no set point of the model has cpu=3MHz")
    );
    assert!(
        at("gpu=3MHz")
            .unwrap_err()
            .contains("no clock \"gpu\"; it has: cpu, mem")
    );
    assert!(
        recording
            .workload(None, None)
            .unwrap_err()
            .to_string()
            .contains("3 set points")
    );
    assert!(
        recording
            .workload(Some("b"), None)
            .unwrap_err()
            .to_string()
            .contains("the file has: a")
    );
}

#[test]
fn errors_of_set_points_name_the_place_and_the_remedy() {
    let cases = [
        ("cpu_hz,busy_mw,idle_mw\n", "p.csv: there is no set point"),
        (
            "cpu_hz,busy_mw\n1,2\n",
            "p.csv, line 2, `idle_mw`: the header lacks this column",
        ),
        (
            "cpu_hz,busy_mw,idle_mw\n1,2,3\n",
            "p.csv, line 2, `idle_mw`: 3 mW idle are more than 2 mW busy",
        ),
        (
            "cpu_hz,busy_mw,idle_mw\n1,3,2\n1,4,2\n",
            "p.csv, line 3: this set point is there twice",
        ),
        (
            "cpu_hz,volts,busy_mw,idle_mw\n1,1,3,2\n",
            "p.csv, line 2, `volts`: this column is unknown",
        ),
        (
            "mem_hz,busy_mw,idle_mw\n1,3,2\n",
            "p.csv, line 2, `cpu_hz`: a set point has no `cpu_hz`",
        ),
    ];
    for (text, message) in cases {
        let error = read_set_points("p.csv", text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_text_is_a_crash(
        text in "[a-c_,0-9\n#\"{}:.=<> -]{0,120}",
        cut in 0_usize..160,
        inserted in "\\PC{0,6}",
    ) {
        let mutated = {
            let cut = (0..=cut.min(RUNS.len())).rev().find(|&at| RUNS.is_char_boundary(at)).unwrap_or(0);
            format!("{}{inserted}{}", &RUNS[..cut], &RUNS[cut..])
        };
        for text in [&text, &mutated] {
            let model = parse(text).ok().and_then(|recording| FrequencyModel::fit(&recording, None, 2).ok());
            if let Some(model) = model {
                prop_assert_eq!(&FrequencyModel::parse("m", &model.to_json()).unwrap(), &model);
            }
            let _refused = read_set_points("p.csv", text);
            let _refused = FrequencyModel::parse("m.json", text);
            let _refused = text.parse::<SetPointNotation>();
            let perf = "program,perf_stat\na,x\n";
            let _refused = RunTable::parse("r", perf, &mut |_| Ok(text.to_string()));
        }
    }
}
