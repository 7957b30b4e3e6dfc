//! Events of the kernel as its ring buffers hold them: layouts, pages, decoding.

mod decoder;
mod event;
mod layout;
mod page;

pub use decoder::{DECODED_EVENTS, Decoder, system_of};
pub use event::{Interrupt, KernelEvent, KernelEventKind, OffCpuState, Switch, ThreadName, Vector};
pub use layout::{EventLayout, LayoutError};
pub use page::{LONGEST_PAGE, PAGE_HEADER_BYTES, PageError, PageEvents, RawEvent, page_bytes};
