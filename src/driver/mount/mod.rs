//! A disk is mounted for the machine and for pods, formatted, grown, unmounted.

pub mod expand;
pub mod format;
pub(crate) mod format_consent;
pub mod owed_marks;
pub mod publish;
pub mod release;
pub(crate) mod sole_writer;
pub mod stage;
pub mod unmount;
