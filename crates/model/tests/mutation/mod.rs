//! Texts that are almost right.

use proptest::prelude::*;

/// Scraps of the format in any order.
pub fn soup(scraps: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(scraps), 0..120).prop_map(|parts| parts.concat())
}

/// One of `texts` with a few lines, words or characters deleted, doubled, swapped or replaced.
pub fn mutated<const N: usize>(texts: &'static [&'static str; N]) -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((0..9_u8, any::<u32>(), any::<u32>()), 1..6);
    (prop::sample::select(texts.as_slice()), edits).prop_map(|(text, edits)| {
        edits
            .into_iter()
            .fold(text.to_owned(), |text, (sort, a, b)| {
                edit(&text, sort, a as usize, b as usize)
            })
    })
}

const VALUES: [&str; 22] = [
    "0",
    "-1",
    "1",
    "5",
    "99",
    "101",
    "4294967296",
    "18446744073709551616",
    "1.5",
    "nan",
    "true",
    "\"\"",
    "\"0ns\"",
    "\"5\"",
    "\"1ns\"",
    "\"584years\"",
    "\"18446744073s\"",
    "[]",
    "{}",
    "[[0]]",
    "\"none\"",
    "2026-01-01",
];

fn edit(text: &str, sort: u8, a: usize, b: usize) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let (first, second) = (a % lines.len(), b % lines.len());
    match sort {
        0 => {
            lines.remove(first);
        }
        1 => {
            let line = lines[first].clone();
            lines.insert(second, line);
        }
        2 => lines.swap(first, second),
        3 => lines[first] = lines[second].clone(),
        4 | 5 => {
            // The value of one line in place of another's, or a value from the list.
            let value = match sort {
                4 => lines[second]
                    .split_once(['=', ':'])
                    .map_or(String::new(), |(_, v)| v.to_owned()),
                _ => VALUES[b % VALUES.len()].to_owned(),
            };
            if let Some(at) = lines[first].find(['=', ':']) {
                lines[first].truncate(at + 1);
                lines[first].push_str(&value);
            }
        }
        6 => {
            let line = &lines[first];
            let words: Vec<&str> = line.split(' ').collect();
            let kept = words
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != b % words.len());
            lines[first] = kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ");
        }
        7 => {
            let mut chars: Vec<char> = lines[first].chars().collect();
            if !chars.is_empty() {
                let at = b % chars.len();
                chars.remove(at);
            }
            lines[first] = chars.into_iter().collect();
        }
        _ => {
            let mut chars: Vec<char> = lines[first].chars().collect();
            let scraps = ['"', '[', '}', '0', '9', '-', 'é', '.', '#', '\\', 'a'];
            chars.insert(b % (chars.len() + 1), scraps[a % scraps.len()]);
            lines[first] = chars.into_iter().collect();
        }
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines.join("\n")
}
