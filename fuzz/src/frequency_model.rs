//! Recorded runs, outputs of `perf stat`, powers of set points, and frequency models.

use tailbound_execution_time::{FrequencyModel, RunTable, SetPointNotation, read_set_points};

/// The longest recording that is fitted: a fit of thousands of runs tells no more of the reader.
const LONGEST_FIT: usize = 40;

/// Every refusal names its file; a model that was fitted is written and read as the same.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    if let Ok(notation) = text.parse::<SetPointNotation>() {
        let again: SetPointNotation = notation.to_string().parse().expect("our own notation");
        assert_eq!(again, notation);
    }
    if let Err(error) = read_set_points("powers.csv", text) {
        assert!(error.to_string().starts_with("powers.csv"), "{error}");
    }
    if let Ok(model) = FrequencyModel::parse("model.json", text) {
        let again = FrequencyModel::parse("model.json", &model.to_json()).expect("our own JSON");
        assert_eq!(again.to_json(), model.to_json());
    }
    let perf = "program,cpu_hz,perf_stat\na,1000,x\n";
    let _refused = RunTable::parse("runs.csv", perf, &mut |_| Ok(text.to_owned()));
    match RunTable::parse("runs.csv", text, &mut |_| {
        Err("there is no other file".into())
    }) {
        Err(error) => assert!(error.to_string().starts_with("runs.csv"), "{error}"),
        Ok(recording) if recording.runs.len() <= LONGEST_FIT && recording.counters.len() <= 8 => {
            if let Ok(model) = FrequencyModel::fit(&recording, None, 2) {
                let text = model.to_json();
                let again = FrequencyModel::parse("model.json", &text).expect("our own JSON");
                assert_eq!(
                    again.to_json(),
                    FrequencyModel::parse("m", &again.to_json())
                        .expect("ours")
                        .to_json()
                );
            }
        }
        Ok(_) => {}
    }
}
