//! Whatever bytes come as arguments: one JSON object.

use crate::calls::{self, WORKING};
use crate::replies::must_decode;
use crate::support::Node;
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

fn config() -> ProptestConfig {
    // Nothing is written to the sources: the user who runs the tests may not be their owner.
    ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() }
}

/// An argument: any bytes but the one that the kernel ends arguments with.
fn argument() -> impl Strategy<Value = OsString> {
    proptest::collection::vec(1_u8.., 0..200).prop_map(OsString::from_vec)
}

#[test]
fn random_bytes_as_arguments_are_a_failure() {
    let node = Node::new();
    let arguments = proptest::collection::vec(argument(), 0..8);
    proptest!(config(), |(word in proptest::sample::select(&WORKING[..]), arguments in arguments)| {
        let call: Vec<_> = std::iter::once(OsString::from(word)).chain(arguments).collect();
        let answer = node.call(&call);
        must_decode(&answer);
        prop_assert_eq!(&answer.json["status"], "Failure");
    });
    assert!(!node.base().join("cloud").exists(), "nothing was asked of the cloud");
}

#[test]
fn random_bytes_as_the_word_are_not_supported() {
    let node = Node::new();
    proptest!(config(), |(word in argument(), arguments in proptest::collection::vec(argument(), 0..4))| {
        prop_assume!(!word.as_encoded_bytes().starts_with(b"-"));
        let call: Vec<_> = std::iter::once(word).chain(arguments).collect();
        let answer = node.call(&call);
        must_decode(&answer);
        prop_assert_eq!(&answer.json["status"], "Not supported");
    });
}

/// Nearly right calls get further than noise: one byte of one argument is another.
#[test]
fn one_wrong_byte_never_breaks_the_reply() {
    let node = Node::new();
    node.create("vol-1", "1M");
    // A byte in the wrong place may leave the call whole, and then it waits for a disk.
    node.configure("[deadline]\nwaitforattach = 1\nmountdevice = 1\nmount = 1");
    let calls = calls::every(&node, "vol-1", "pv-1");
    let wrong = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_u8..);
    proptest!(config(), |(call in proptest::sample::select(calls), (which, place, byte) in wrong)| {
        let mut call = call;
        let which = 1 + which.index(call.len() - 1);
        let mut bytes = std::mem::take(&mut call[which]).into_vec();
        if bytes.is_empty() {
            bytes.push(byte);
        } else {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        call[which] = OsString::from_vec(bytes);
        let answer = node.call(&call);
        must_decode(&answer);
        prop_assert_ne!(&answer.json["status"], "Not supported");
    });
}
