//! The layouts of events, as the kernel describes them in files named `format`.

/// A field in an event's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Bytes from the event's beginning.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Whether numbers in it have a sign.
    pub signed: bool,
    /// Whether it holds the place and the length of text elsewhere in the event (`__data_loc`).
    pub dynamic: bool,
}

/// The layout of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLayout {
    /// The event's name, such as `sched_switch`.
    pub name: String,
    /// The number by which ring buffers name it.
    pub id: u16,
    fields: Vec<Field>,
}

/// A text that is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of an event's format: {what}")]
pub struct LayoutError {
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
}

impl EventLayout {
    /// Reads the text of a `format` file of tracefs.
    ///
    /// # Errors
    /// No name, no number, or a field without place and size.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for (index, line) in text.lines().enumerate() {
            let fault = |what: &str| LayoutError {
                line: index + 1,
                what: what.into(),
            };
            if let Some(text) = line.strip_prefix("name:") {
                name = Some(text.trim().to_string());
            } else if let Some(text) = line.strip_prefix("ID:") {
                let number = text.trim().parse().map_err(|_| fault("ID is no number"));
                id = Some(number?);
            } else if line.trim_start().starts_with("field:") {
                fields.push(Field::parse(line.trim_start()).map_err(fault)?);
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        let missing = |what: &str| LayoutError {
            line: 1,
            what: what.into(),
        };
        Ok(Self {
            name: name.ok_or_else(|| missing("there is no name"))?,
            id: id.ok_or_else(|| missing("there is no ID"))?,
            fields,
        })
    }

    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Reads `field:TYPE NAME[N];\toffset:O;\tsize:S;\tsigned:B;`.
    fn parse(line: &str) -> Result<Self, &'static str> {
        let mut parts = line.split(';').map(str::trim);
        let declared = parts.next().unwrap_or_default();
        let declared = declared.trim_start_matches("field:");
        let last = declared.split_whitespace().next_back();
        let name = last.ok_or("a field without a name")?;
        let name = name.split('[').next().unwrap_or(name);
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", number)) => offset = number.parse().ok(),
                Some(("size", number)) => size = number.parse().ok(),
                Some(("signed", number)) => signed = number == "1",
                _ => {}
            }
        }
        Ok(Self {
            name: name.trim_start_matches('*').to_string(),
            offset: offset.ok_or("a field without an offset")?,
            size: size.ok_or("a field without a size")?,
            signed,
            dynamic: declared.starts_with("__data_loc"),
        })
    }

    /// The number in the field; `None` where the event ends before.
    pub fn number(&self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (bytes.len(), self.signed) {
            (1, false) => u64::from(bytes[0]),
            (1, true) => i64::from(bytes[0] as i8) as u64,
            (2, false) => u64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
            (2, true) => i64::from(i16::from_le_bytes(bytes.try_into().ok()?)) as u64,
            (4, false) => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)) as u64,
            (8, _) => u64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The number at a place of a field that is an array of 8-byte numbers.
    pub fn element(&self, event: &[u8], index: usize) -> Option<u64> {
        let offset = index.checked_mul(8).filter(|at| at + 8 <= self.size)?;
        let at = self.offset.checked_add(offset)?;
        let bytes = event.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The 16 bytes of a field that holds a thread's name.
    pub fn name_bytes(&self, event: &[u8]) -> Option<[u8; 16]> {
        let bytes = event.get(self.offset..self.offset.checked_add(16)?)?;
        bytes.try_into().ok()
    }

    /// The text that the field points to, or holds.
    pub fn text(&self, event: &[u8]) -> Option<String> {
        let (offset, size) = match self.dynamic {
            false => (self.offset, self.size),
            true => {
                let place = self.number(event)?;
                ((place & 0xffff) as usize, (place >> 16) as usize)
            }
        };
        let bytes = event.get(offset..offset.checked_add(size)?)?;
        let end = bytes.iter().position(|byte| *byte == 0);
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}
