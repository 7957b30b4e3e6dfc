//! Events of the kernel as its ring buffers hold them: layouts, pages, decoding.

mod decoder;
mod event;
mod layout;
mod lock_call;
mod page;

pub use decoder::{DECODED_EVENTS, EventDecoder, system_of};
pub use event::{
    InterruptContext, KernelEvent, KernelEventKind, OffCpuState, ThreadName, ThreadSwitch, Vector,
};
pub use layout::{EventLayout, LayoutError};
pub use lock_call::{
    ExecutionContext, LOCK_FUNCTIONS, LockCall, LockFunction, LockKind, LockResult, LockStep,
};
pub use page::{LONGEST_PAGE, PAGE_HEADER_BYTES, PageError, PageEvents, RawEvent, page_bytes};
