#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tailbound_fuzz::rtps::check(bytes));
