//! Addresses of a process as places in files.

/// A place in a program or library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModulePlace {
    /// The path of the file.
    pub path: String,
    /// The address from the beginning of the file's mappings.
    pub offset: u64,
}

/// The files that a process has mapped, as /proc/PID/maps lists them.
#[derive(Clone, Debug, Default)]
pub struct MappedModules {
    /// The range of addresses, the file, and the lowest address of the file.
    ranges: Vec<(u64, u64, String, u64)>,
}

impl MappedModules {
    /// Reads the lines of /proc/PID/maps; lines of another form, and mappings without a file, are passed over.
    pub fn parse(text: &str) -> Self {
        let mut ranges: Vec<(u64, u64, String, u64)> = Vec::new();
        for line in text.lines() {
            let Some((start, end, path)) = mapping(line) else {
                continue;
            };
            // The kernel lists addresses in their order.
            let base = match ranges.last() {
                Some((_, _, last, base)) if last == path => *base,
                _ => start,
            };
            ranges.push((start, end, path.to_owned(), base));
        }
        Self { ranges }
    }

    /// The file and the offset of an address; `None` for one outside of all files.
    pub fn place(&self, address: u64) -> Option<ModulePlace> {
        let range = self
            .ranges
            .iter()
            .find(|(start, end, ..)| (*start..*end).contains(&address))?;
        let (_, _, path, base) = range;
        Some(ModulePlace {
            path: path.clone(),
            offset: address - base,
        })
    }
}

fn mapping(line: &str) -> Option<(u64, u64, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let path = &rest[rest.find('/')?..];
    Some((number(start)?, number(end)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 12                         /usr/bin/some program
55d0c0001000-55d0c0003000 r-xp 00001000 fe:00 12                         /usr/bin/some program
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f1000000000-7f1000001000 r-xp 00000000 fe:00 13                         /lib/libc.so.6
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
";

    #[test]
    fn an_address_is_a_place_in_its_file() {
        let modules = MappedModules::parse(MAPS);
        let place = |address| modules.place(address).map(|it| (it.path, it.offset));
        let program = "/usr/bin/some program".to_owned();
        assert_eq!(place(0x55d0_c000_1010), Some((program, 0x1010)));
        assert_eq!(place(0x7f10_0000_0004), Some(("/lib/libc.so.6".into(), 4)));
        assert_eq!(place(0x7f00_0000_0004), None);
        assert_eq!(place(0), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9a-f r/\n-]{0,200}", address in any::<u64>()) {
            MappedModules::parse(&text).place(address);
        }
    }
}
