//! No error about the configuration quotes a value of it, in whatever form it is written and wherever the
//! value stands: a password may stand at the wrong place.

use crate::examples::keys_below;
use incloud_disk::configuration::Config;
use incloud_disk::model::cloud::access::Written;
use incloud_disk::model::cloud::access::clouds_yaml::Clouds;
use incloud_disk::model::error::Error;
use regex_lite::Regex;
use std::collections::BTreeSet;

/// A value, and numbers, that no message has by itself.
const CANARIES: [&str; 4] = ["Hx7canary9q", "91827364", "1987", "61.25"];

#[track_caller]
fn tells_none(written: &str, error: &Error) {
    let told = format!("{error} {error:?}");
    for canary in CANARIES {
        assert!(!told.contains(canary), "{written}\n{told}");
    }
}

/// The keys of the configuration, and the tables in which they stand.
fn keys_and_tables() -> BTreeSet<String> {
    let keys = keys_below("");
    let ends = |key: &str| key.match_indices('.').map(|(at, _)| at).collect::<Vec<_>>();
    let tables = keys.iter().flat_map(|key| ends(key).into_iter().map(|end| key[..end].to_owned()));
    let tables: BTreeSet<String> = tables.collect();
    tables.into_iter().chain(keys).collect()
}

#[test]
fn no_error_about_the_configuration_has_a_value_of_it() {
    let values = [
        "\"Hx7canary9q\"",
        "'Hx7canary9q'",
        "\"/Hx7canary9q, expected Hx7canary9q\"",
        "\"signal:Hx7canary9q\"",
        "\"http://u:Hx7canary9q@k\"",
        "\"\"\"\nHx7canary9q\"\"\"",
        "[\"Hx7canary9q\"]",
        "[[\"Hx7canary9q\"], 91827364]",
        "{ a = \"Hx7canary9q\" }",
        "{ a.b = \"Hx7canary9q\" }",
        "\"Hx7canary9q",
        "\"Hx7canary9q\\q\"",
        "\"Hx7canary9q\\ud800\"",
        "\"Hx7canary9q\" Hx7canary9q",
        "Hx7canary9q",
        "[\"Hx7canary9q\"",
        "{ a = \"Hx7canary9q\"",
        "91827364918273649182736491827364",
        "-91827364",
        "91827364",
        "0x91827364z",
        "61.25",
        "61.25e918273649",
        "1987-06-05",
        "1987-66-05T00:00:00Z",
    ];
    let keys = keys_and_tables();
    assert!(keys.len() > 60 && keys.contains("openstack.limits"), "{keys:?}");
    let (mut wrong, mut unusable) = (0, 0);
    for key in &keys {
        for value in values {
            for text in [
                format!("{key} = {value}\n"),
                format!("{key} = {value}\n{key} = {value}\n"),
                format!("{key} = {value}\n{key}.x = {value}\n"),
                format!("{key} {value}\n"),
                format!("[{key}]\nx = {value}\n[{key}]\n"),
            ] {
                match Config::parse(&text, "config.toml") {
                    Err(error) => {
                        tells_none(&text, &error);
                        wrong += 1;
                    }
                    Ok(config) => {
                        let with_address = Written {
                            auth_url: config.openstack.auth_url.clone().or(Some("http://k".into())),
                            ..config.openstack
                        };
                        if let Err(error) = with_address.resolve("config.toml") {
                            tells_none(&text, &error);
                            unusable += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(wrong > 5_000 && unusable > 100, "{wrong} {unusable}");
}

#[test]
fn no_error_about_a_cloud_conf_has_a_value_of_it() {
    let source = include_str!("../../src/model/cloud/access/readers.rs");
    let named = Regex::new(r#""([a-z]+(?:-[a-z]+)*)"(?: \||  *=>|\s*=> \{| \{)"#).unwrap();
    let keys: BTreeSet<_> = named.captures_iter(source).map(|found| found[1].to_owned()).collect();
    assert!(keys.len() > 25 && keys.contains("tls-insecure"), "{keys:?}");
    let mut wrong = 0;
    for key in &keys {
        for line in [
            format!("{key} = Hx7canary9q"),
            format!("{key} = \"Hx7canary9q\""),
            format!("{key} = \"Hx7canary9q"),
            format!("{key} = Hx7canary9q\\x"),
            format!("{key} Hx7canary9q"),
            format!("{key}: Hx7canary9q"),
            format!("{key} = 91827364\n= Hx7canary9q"),
            format!("[Hx7canary9q\n{key} = Hx7canary9q"),
        ] {
            for address in ["", "auth-url = http://k\n"] {
                let text = format!("[Global]\n{address}{line}\n");
                let written = Written::from_cloud_conf(&text, "cloud.conf");
                if let Err(error) = written.and_then(|written| written.resolve("cloud.conf")) {
                    tells_none(&text, &error);
                    wrong += 1;
                }
            }
        }
    }
    assert!(wrong > 300, "{wrong}");
}

#[test]
fn no_error_about_a_clouds_yaml_has_a_value_of_it() {
    let places = [
        "V",
        "- V",
        "clouds: V",
        "clouds: [V]",
        "clouds: {one: V}",
        "clouds: {one: {auth: V}}",
        "clouds: {one: {profile: V}}",
        "clouds: {one: {identity_api_version: V}}",
        "clouds: {one: {verify: V}}",
        "clouds: {one: {auth: {auth_url: V}}}",
        "clouds: {one: {auth: {auth_url: http://k, password: V}}}",
        "clouds: {one: {auth: {auth_url: http://k, application_credential_id: V}}}",
        "clouds: {one: {auth: {auth_url: http://k, user_id: u, password: p, project_id: i}, interface: V}}",
        "clouds:\n  one:\n    auth:\n      password: V\n\t x",
    ];
    let values = [
        "Hx7canary9q",
        "\"Hx7canary9q\"",
        "'Hx7canary9q",
        "\"Hx7canary9q\\q\"",
        "[Hx7canary9q",
        "{a: Hx7canary9q",
        "*Hx7canary9q",
        "!Hx7canary9q",
        "!!int Hx7canary9q",
        "2 Hx7canary9q",
        "91827364",
        "1987-06-05",
        "%Hx7canary9q",
    ];
    let mut wrong = 0;
    for place in places {
        for value in values {
            let text = place.replace('V', value);
            let right = "clouds: {one: {}}";
            for (text, secure) in [(&*text, None), (&*text, Some(right)), (right, Some(&*text))] {
                let clouds = Clouds::parse(text, secure, "clouds.yaml");
                let access = clouds
                    .and_then(|clouds| clouds.entry("one"))
                    .and_then(|written| written.resolve("clouds.yaml"));
                if let Err(error) = access {
                    tells_none(&format!("{text}\n{secure:?}"), &error);
                    wrong += 1;
                }
            }
        }
    }
    assert!(wrong > 400, "{wrong}");
}
