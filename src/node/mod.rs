//! The machine as an installation sees it: its kubelet, its units, its folders.

pub mod system;
