//! The contract with kubelet: the real binary, called as kubelet calls it. No root, no devices.

#[path = "../support/mod.rs"]
mod support;

mod identity;
