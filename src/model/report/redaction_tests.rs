//! Secrets are taken out of texts, and nothing else is.

use super::*;

fn redacted(text: &str) -> String {
    Redaction::default().redacted(text).into_owned()
}

#[test]
fn what_looks_like_a_secret_is_taken_out() {
    for (text, expected) in [
        ("password = \"hunter2 canary\" # old", "password = \"(redacted)\" # old"),
        ("password=hunter2,vers=3.0", "password=(redacted),vers=3.0"),
        ("os_password: hunter2", "os_password: (redacted)"),
        (r#"{"password":"hunter2","user":"u"}"#, r#"{"password":"(redacted)","user":"u"}"#),
        (r#"said {\"token\": \"abc\"}"#, r#"said {\"token\": \"(redacted)\"}"#),
        ("X-Auth-Token: abc def", "X-Auth-Token: (redacted) def"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer (redacted)"),
        ("at https://user:hunter2@cloud:5000/v3 now", "at https://(redacted)@cloud:5000/v3 now"),
        ("GET /x?token=abc&y=1", "GET /x?token=(redacted)&y=1"),
        ("mount --password hunter2 /dev/vdc", "mount --password (redacted) /dev/vdc"),
        ("Could not find token 7d3f0a1b2c3d4e5f60718293", "Could not find token (redacted)"),
        ("no: gAAAAABmQWERTY-uiop_1234567890 x", "no: (redacted) x"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc", "(redacted)"),
        ("application_credential_secret=abc", "application_credential_secret=(redacted)"),
        ("some.io/secret/token\":\"abc\"", "some.io/secret/token\":\"(redacted)\""),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- b",
            "a (redacted) b",
        ),
        ("cut -----BEGIN PRIVATE KEY-----\nabc", "cut (redacted)"),
        ("pass=x pwd=y", "pass=(redacted) pwd=(redacted)"),
        ("PGPWD=x1 MYSQL_PWD=y1", "PGPWD=(redacted) MYSQL_PWD=(redacted)"),
    ] {
        assert_eq!(redacted(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "",
        "warning  credentials    /etc/incloud-disk/config.toml: others may read it (mode 0644)",
        "tokens seem to be expired, or not valid yet",
        "application_credential_id = \"0b5c3f0e9a7d4f5e8d4b1f2a3b4c5d6e\"",
        "openstack.key_file = \"/etc/ssl/private.pem\"",
        "Keystone answered 401: the password is wrong",
        "volume 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 of shop/passport-0",
        "http://cloud:5000/v3 and http://a/b@c",
        "EXT4-fs error (device vdc): ext4_find_entry:1455: inode #2: comm ls",
        "kept in /run/incloud-disk/tokens/0b5c3f0e9a7d4f5e8d4b",
        "ok       credentials    only their owner may read /etc/incloud-disk/config.toml",
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn a_known_secret_is_taken_out_in_each_of_its_forms() {
    let redaction = Redaction::of(["hunter2 \"canary\"\t+1".to_owned(), "demo".to_owned()]);
    for text in [
        "hunter2 \"canary\"\t+1",
        r#"hunter2 \"canary\"\t+1"#,
        r#"hunter2 "canary"\t+1"#,
        "hunter2%20%22canary%22%09%2B1",
        "aHVudGVyMiAiY2FuYXJ5IgkrMQ==",
        "it is demo.",
    ] {
        let told = redaction.redacted(&format!("x {text} y")).into_owned();
        assert!(told.contains(REDACTED) && !told.contains("hunter2"), "{told}");
        assert!(!told.contains("demo") && !told.contains("aHVu"), "{told}");
    }
    assert_eq!(redaction.redacted("democracy"), "democracy", "a short one is a word");
    let switches = ["true", "None", "", "abc"].map(str::to_owned);
    assert_eq!(Redaction::of(switches), Redaction::default(), "these are in each text");
    assert_eq!(format!("{redaction:?}").matches("hunter2").count(), 0);
}

#[test]
fn what_is_left_of_a_secret_that_was_cut_is_taken_out() {
    let redaction = Redaction::of(["hunter2-canary-0123456789".to_owned()]);
    for text in ["said hunter2-can", "said hunter2-ca… and", "x … ary-0123456789 y", "hunt"] {
        let told = redaction.redacted(text).into_owned();
        assert!(told.contains(REDACTED) && !told.contains("hunt"), "{told}");
        assert!(!told.contains("0123"), "{told}");
    }
}

#[test]
fn secrets_are_found_in_files_that_are_read_and_in_broken_ones() {
    for text in [
        "[openstack]\npassword = \"hunter2 canary\"\n",
        "[Global]\npassword=hunter2 canary\n",
        "clouds: {a: {auth: {password: hunter2 canary}}}",
        "{\"token\":\"hunter2 canary\",\"expires\":1}",
        "password = \"hunter2 canary",
    ] {
        let told = Redaction::of(secrets_in(text)).redacted("x hunter2 canary y").into_owned();
        assert!(!told.contains("hunter2 canary"), "{text}: {told}");
    }
    for text in [
        "level = \"hunter2\"",
        "level = hunter2",
        "hunter2",
        "x = [\"a\", 'hunter2']",
        "x 'hunter2' y",
    ] {
        let told = Redaction::of(values_in(text))
            .redacted("variant `hunter2`, or \"hunter2\"")
            .into_owned();
        assert!(!told.contains("hunter2"), "{text}: {told}");
    }
}

/// A percent sign is quoted as itself where no two digits follow.
#[test]
fn a_password_in_an_address_is_known_as_it_is_meant() {
    for (password, meant) in [
        ("p%2Bfw%40", "p+fw@"),
        ("p%+fw", "p%+fw"),
        ("100%", "100%"),
        ("%2", "%2"),
        ("%zz%C3%A9", "%zzé"),
    ] {
        let secrets = secrets_of_url(&format!("https://u:{password}@cloud:5000"));
        let whole = [format!("u:{password}"), format!("u:{meant}")];
        assert_eq!(secrets, [&whole[0], &whole[1], password, meant], "{password}");
    }
}

proptest::proptest! {
    #[test]
    fn what_is_redacted_stays_so(text in "(password|token|x|[ =:\"'/@é(),\\\\-]|://|hunter2){0,12}") {
        let redaction = Redaction::of(["hunter2-é".to_owned(), "hunter2".to_owned()]);
        let once = redaction.redacted(&text).into_owned();
        proptest::prop_assert!(!once.split(|c: char| !c.is_alphanumeric()).any(|w| w == "hunter2"), "{}", once);
        let twice = redaction.redacted(&once).into_owned();
        proptest::prop_assert_eq!(&twice, &once);
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", secret in ".{0,20}") {
        let _ = Redaction::of([secret]).redacted(&text);
    }
}
