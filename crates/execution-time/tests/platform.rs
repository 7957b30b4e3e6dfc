//! Platforms whose coefficients are known.

use std::fmt::Write;

use proptest::prelude::*;
use tailbound_execution_time::{FrequencyModel, RunTable, SetPointNotation};

/// A platform: core cycles of each instruction of a program, and cycles of bus and memory for each miss.
struct Platform {
    bus_cycles: f64,
    mem_cycles: f64,
    constant_ns: f64,
}

const SET_POINTS_HZ: [(u64, u64, u64); 6] = [
    (100_000_000, 50_000_000, 100_000_000),
    (200_000_000, 50_000_000, 100_000_000),
    (200_000_000, 100_000_000, 100_000_000),
    (400_000_000, 100_000_000, 100_000_000),
    (400_000_000, 200_000_000, 100_000_000),
    (400_000_000, 100_000_000, 133_000_000),
];

/// Instructions, misses, branches, and core cycles of each instruction. The last two are no part of the platform.
const PROGRAMS: [(u64, u64, u64, f64); 6] = [
    (5_000_000_000, 1_000_000, 700_000_000, 1.1),
    (4_000_000_000, 90_000_000, 900_000_000, 1.3),
    (3_000_000_000, 20_000_000, 100_000_000, 1.7),
    (6_000_000_000, 60_000_000, 200_000_000, 1.2),
    (2_000_000_000, 5_000_000, 600_000_000, 1.9),
    (7_000_000_000, 40_000_000, 50_000_000, 1.4),
];

impl Platform {
    fn seconds(
        &self,
        (instructions, misses, _, cycles): (u64, u64, u64, f64),
        (cpu, bus, mem): (u64, u64, u64),
    ) -> f64 {
        let misses = misses as f64;
        instructions as f64 * cycles / cpu as f64
            + misses
                * (self.bus_cycles / bus as f64
                    + self.mem_cycles / mem as f64
                    + self.constant_ns / 1e9)
    }

    fn recording(&self, fewer: usize) -> RunTable {
        let mut text = String::from(
            "# a platform of the tests\nprogram,cpu_hz,bus_hz,mem_hz,time_ns,instructions,misses,branches\n",
        );
        for (index, program) in PROGRAMS.iter().enumerate().skip(fewer) {
            for (cpu, bus, mem) in SET_POINTS_HZ {
                let time_ns = (self.seconds(*program, (cpu, bus, mem)) * 1e9).round();
                let (instructions, misses, branches, _) = program;
                writeln!(
                    text,
                    "p{index},{cpu},{bus},{mem},{time_ns},{instructions},{misses},{branches}"
                )
                .unwrap();
            }
        }
        read(&text)
    }
}

fn read(text: &str) -> RunTable {
    RunTable::parse("runs.csv", text, &mut |_| {
        Err("there is no other file".into())
    })
    .unwrap()
}

#[test]
fn the_coefficients_of_a_platform_come_back() {
    let platform = Platform {
        bus_cycles: 6.0,
        mem_cycles: 11.0,
        constant_ns: 0.0,
    };
    let model = FrequencyModel::fit(&platform.recording(0), None, 4).unwrap();
    let terms: Vec<(&str, &str)> = model
        .scaling
        .terms
        .iter()
        .map(|term| (term.counter.as_str(), term.clock.as_str()))
        .collect();
    assert_eq!(terms, [("misses", "bus"), ("misses", "mem")]);
    for (term, cycles) in model.scaling.terms.iter().zip([6.0, 11.0]) {
        assert!((term.cycles_per_event - cycles).abs() < 1e-4, "{term:?}");
        assert!((term.chosen_again - 1.0).abs() < 1e-12, "{term:?}");
    }
    assert!(model.scaling.exhaustive && model.absolute.exhaustive);
    assert!(
        model.scaling.errors.model.max < 1e-6,
        "{:?}",
        model.scaling.errors.model
    );
    assert!(
        model.scaling.errors.naive.max > 0.5,
        "{:?}",
        model.scaling.errors.naive
    );
    // Six programs from each of six set points to the five others.
    assert_eq!(model.scaling.errors.model.predictions, 180);
    assert_eq!(model.source.notes, ["a platform of the tests"]);
}

#[test]
fn memory_without_a_clock_of_its_own_becomes_constant_time() {
    let text = |program: usize| {
        let (instructions, misses, _, cycles) = PROGRAMS[program];
        let lines = [1_200_000_000_u64, 1_800_000_000, 2_400_000_000].map(|cpu| {
            let seconds = instructions as f64 * cycles / cpu as f64 + misses as f64 * 80e-9;
            format!(
                "p{program},{cpu},{:.0},{instructions},{misses}\n",
                seconds * 1e9
            )
        });
        lines.concat()
    };
    let header = "program,cpu_hz,time_ns,instructions,misses\n";
    let model = FrequencyModel::fit(
        &read(&(header.to_owned() + &(0..6).map(text).collect::<String>())),
        None,
        4,
    )
    .unwrap();
    let [term] = &model.scaling.terms[..] else {
        panic!("{:?}", model.scaling.terms)
    };
    assert_eq!(
        (term.counter.as_str(), term.clock.as_str()),
        ("misses", "constant")
    );
    assert!((term.cycles_per_event - 80.0).abs() < 1e-3, "{term:?}");
}

#[test]
fn a_workload_more_bound_to_memory_than_the_model_can_say_is_limited() {
    let platform = Platform {
        bus_cycles: 6.0,
        mem_cycles: 11.0,
        constant_ns: 0.0,
    };
    let model = FrequencyModel::fit(&platform.recording(0), None, 4).unwrap();
    let text = "program,cpu_hz,bus_hz,mem_hz,time_ns,misses\nx,100000000,50000000,100000000,1000,1000000\n";
    let workload = read(text).workload(None, None).unwrap();
    let demand = model.demand("x.csv", &workload).unwrap();
    assert!(demand.limited);
    let here = workload.set_point.clone().unwrap();
    assert!((model.slowdown(&workload, &demand, &here).unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn counts_from_another_host_give_times_by_themselves() {
    let platform = Platform {
        bus_cycles: 6.0,
        mem_cycles: 11.0,
        constant_ns: 0.0,
    };
    let mut runs = platform.recording(0);
    // All programs with the same cycles an instruction: then the counts tell everything.
    for run in &mut runs.runs {
        let set_point = run.set_point.clone().unwrap();
        let [cpu, bus, mem] =
            ["cpu", "bus", "mem"].map(|clock| set_point.of(clock).unwrap().as_hertz());
        let program = (run.counts[0], run.counts[1], 0, 1.25);
        run.time = tailbound_time::Duration::from_secs_f64_nearest(
            platform.seconds(program, (cpu, bus, mem)),
        );
    }
    let model = FrequencyModel::fit(&runs, None, 4).unwrap();
    let workload =
        read("program,time_ns,instructions,misses,branches\nx,1000000000,1000000000,2000000,5\n")
            .workload(None, None)
            .unwrap();
    let demand = model.demand("x.csv", &workload).unwrap();
    let target = model
        .set_point(&"cpu=200MHz,bus=100MHz".parse::<SetPointNotation>().unwrap())
        .unwrap();
    let expected = platform.seconds(
        (1_000_000_000, 2_000_000, 5, 1.25),
        (200_000_000, 100_000_000, 100_000_000),
    );
    assert!((demand.seconds_at(&target) / expected - 1.0).abs() < 1e-6);
}

#[test]
fn a_model_is_written_and_read_as_the_same() {
    let platform = Platform {
        bus_cycles: 3.0,
        mem_cycles: 9.0,
        constant_ns: 2.0,
    };
    let model = FrequencyModel::fit(&platform.recording(1), None, 2).unwrap();
    assert_eq!(
        FrequencyModel::parse("m.json", &model.to_json()).unwrap(),
        model
    );
    let other = model
        .to_json()
        .replacen("\"schema_version\": 1", "\"schema_version\": 2", 1);
    let error = FrequencyModel::parse("m.json", &other)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("schema_version 2; this program reads 1"),
        "{error}"
    );
    let other = model
        .to_json()
        .replacen("\"clock\": \"bus\"", "\"clock\": \"bsu\"", 1);
    let error = FrequencyModel::parse("m.json", &other)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("m.json, `scaling`: the clock \"bsu\""),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_linear_platform_is_predicted(bus in 0.0..20.0, mem in 0.0..20.0, constant in 0.0..50.0) {
        let platform = Platform { bus_cycles: bus, mem_cycles: mem, constant_ns: constant };
        let model = FrequencyModel::fit(&platform.recording(0), None, 4).unwrap();
        prop_assert!(model.scaling.errors.model.max < 1e-4, "{:?}", model.scaling);
        // Any set point, not only recorded ones; the counts of a program that the platform has as well.
        let recording = platform.recording(0);
        let from: SetPointNotation = "cpu=400MHz,mem=133MHz".parse().unwrap();
        let workload = recording.workload(Some("p3"), Some(&from)).unwrap();
        let demand = model.demand("runs.csv", &workload).unwrap();
        let target = model.set_point(&"cpu=321MHz,bus=77MHz,mem=111MHz".parse().unwrap()).unwrap();
        let expected = platform.seconds(PROGRAMS[3], (321_000_000, 77_000_000, 111_000_000));
        prop_assert!((demand.seconds_at(&target) / expected - 1.0).abs() < 1e-4);
    }
}
