use std::path::Path;

use proptest::prelude::*;

use super::*;

fn root(path: &str) -> Root {
    Root::resolve(Path::new("/"), Path::new(path)).unwrap()
}

fn host(text: &str) -> HostPattern {
    text.parse().unwrap()
}

fn to(url: &str) -> Destination {
    let (scheme, authority) = url.split_once("://").unwrap();
    Destination::new(scheme, authority).unwrap()
}

#[test]
fn nothing_is_granted_to_begin_with() {
    let grant = Grant::none();
    assert!(grant.preopens().is_empty());
    assert!(grant.env().is_empty() && grant.hosts().is_empty());
    assert_eq!(grant.workspace(), None);
}

#[test]
fn a_value_is_kept_where_both_sides_have_it() {
    let one = Grant::none().with_value("A", "1").with_value("B", "2");
    let other = Grant::none().with_value("A", "1").with_value("B", "3").with_env("C");
    let met: Vec<_> = one.intersect(&other).values().clone().into_iter().collect();
    assert_eq!(met, [("A".to_owned(), "1".to_owned())]);
}

#[test]
fn of_two_quotas_the_smaller_one_is_met() {
    let one = Grant::none().with_state(10).with_state(5).with_cache(3);
    let other = Grant::none().with_state(20);
    assert_eq!((one.state(), one.intersect(&other).state()), (Some(10), Some(10)));
    assert_eq!((one.intersect(&other).cache(), other.intersect(&one).cache()), (None, None));
    assert_eq!(one.read_only().state(), one.state(), "its own things are not the user's");
}

#[test]
fn lookalike_prefixes_are_other_directories() {
    let grant = Grant::none().with_write(root("/nowhere/out"));
    assert!(grant.writable().covers(&root("/nowhere/out/deep")));
    assert!(!grant.writable().covers(&root("/nowhere/outside")));
    assert!(!grant.writable().covers(&root("/nowhere/out/../other")));
}

#[test]
fn meet_takes_the_deeper_directory() {
    let asked = Grant::none().with_write(root("/nowhere")).with_host(host("*.github.com")).with_env("LANG");
    let granted = Grant::none().with_write(root("/nowhere/out")).with_host(host("api.github.com"));
    let met = asked.intersect(&granted);
    assert_eq!(met.writable().roots(), [root("/nowhere/out")]);
    assert_eq!(met.hosts(), [host("api.github.com")]);
    assert!(met.env().is_empty());
}

#[test]
fn asking_to_read_what_may_be_written_is_granted_for_reading_only() {
    let asked = Grant::none().with_read(root("/nowhere/out"));
    let granted = Grant::none().with_write(root("/nowhere"));
    let met = asked.intersect(&granted);
    assert!(met.readable().covers(&root("/nowhere/out")));
    assert!(!met.writable().covers(&root("/nowhere/out")));
}

#[test]
fn a_workspace_without_the_right_to_read_it_is_none() {
    assert_eq!(Grant::none().with_workspace(root("/nowhere")).workspace(), None);
}

#[test]
fn a_writable_directory_is_preopened_once() {
    let grant = Grant::none().with_read(root("/nowhere/out/docs")).with_write(root("/nowhere/out"));
    let names: Vec<_> = grant.preopens().into_iter().map(|p| (p.name, p.writable)).collect();
    assert_eq!(names, [("/nowhere/out".to_owned(), true)]);
}

/// A guest's C library would take `.` for the root of absolute paths too.
#[test]
fn no_directory_is_preopened_under_a_relative_name() {
    let grant = Grant::none().with_write(root("/nowhere")).with_workspace(root("/nowhere"));
    assert!(grant.preopens().iter().all(|p| p.name.starts_with('/')));
}

#[test]
fn host_patterns_match_scheme_port_and_labels() {
    let pattern = host("*.example.com:8443");
    assert!(pattern.matches(&to("https://API.example.com:8443")));
    assert!(!pattern.matches(&to("https://example.com:8443")));
    assert!(!pattern.matches(&to("https://evilexample.com:8443")));
    assert!(!pattern.matches(&to("http://api.example.com:8443")));
    assert!(!pattern.matches(&to("https://api.example.com")));
    assert!(host("http://[::1]:80").matches(&to("http://[::1]")));
    assert!(host("http://[0::1]").matches(&to("http://[0:0:0:0:0:0:0:1]")));
    assert!(host("*").matches(&to("http://anything.test:1")) && host("*").matches(&to("https://[::1]:2")));
}

#[test]
fn host_patterns_explain_themselves() {
    let error = |text: &str| text.parse::<HostPattern>().unwrap_err();
    assert_eq!(error("ftp://x"), HostPatternError::Scheme);
    assert_eq!(error("https://x/path"), HostPatternError::NotAHost);
    assert_eq!(error("user@x"), HostPatternError::NotAHost);
    assert_eq!(error("x:0"), HostPatternError::Port);
    assert_eq!(error(""), HostPatternError::Host);
    assert_eq!(error("*:80"), HostPatternError::Host);
    assert_eq!(error("https://*"), HostPatternError::Host);
    assert_eq!(error("*."), HostPatternError::Host);
}

#[test]
fn host_patterns_round_trip() {
    for text in ["api.github.com", "*.github.com", "http://localhost:8080", "[::1]:8443", "*"] {
        assert_eq!(host(text).to_string(), text);
    }
}

/// FU02, FU04: the addresses that a name may resolve to, and the grants that allow more.
#[test]
fn names_lead_to_public_addresses_and_granted_ones() {
    use AddressError::{Loopback, Metadata, NotLoopback, Private};
    let public = "93.184.215.14";
    for (hosts, destination, address, expected) in [
        (&["api.test"][..], "https://api.test", public, Ok(())),
        (&["api.test"], "https://api.test", "10.0.0.5", Err(Private)),
        (&["api.test"], "https://api.test", "127.0.0.1", Err(Loopback)),
        (&["*.test"], "https://api.test", "::ffff:127.0.0.1", Err(Loopback)),
        (&["*"], "https://api.test", public, Ok(())),
        (&["*"], "http://127.0.0.1:80", "127.0.0.1", Err(Loopback)),
        (&["*"], "http://localhost:8080", "127.0.0.1", Err(Loopback)),
        (&["*"], "http://169.254.169.254", "169.254.169.254", Err(Metadata)),
        // An address must be granted itself, with its port.
        (&["http://10.0.0.5:8080"], "http://10.0.0.5:8080", "10.0.0.5", Ok(())),
        (&["*", "http://10.0.0.5:8080"], "http://intra.test:8080", "10.0.0.5", Ok(())),
        (&["*", "http://10.0.0.5:8080"], "http://intra.test:8081", "10.0.0.5", Err(Private)),
        (&["http://169.254.169.254"], "http://169.254.169.254", "169.254.169.254", Ok(())),
        (&["http://[::1]:80"], "http://[::1]", "::1", Ok(())),
        (&["http://127.0.0.1"], "http://127.0.0.1", "::ffff:127.0.0.1", Ok(())),
        // `localhost` is loopback only.
        (&["http://localhost:8080"], "http://localhost:8080", "127.0.0.1", Ok(())),
        (&["http://localhost:8080"], "http://localhost:8080", "::1", Ok(())),
        (&["http://localhost:8080", "*"], "http://localhost:8080", public, Err(NotLoopback)),
        (&["http://localhost:8080", "*"], "http://localhost:8081", "127.0.0.1", Err(Loopback)),
        (&["http://localhost:8080"], "http://localhost:8080", "10.0.0.5", Err(Private)),
        (&["*"], "http://localhost:8080", public, Err(NotLoopback)),
        (&["http://*.localhost:8080"], "http://a.localhost:8080", "127.0.0.1", Err(Loopback)),
    ] {
        let grant = hosts.iter().fold(Grant::none(), |grant, text| grant.with_host(host(text)));
        assert!(grant.may_ask(&to(destination)), "{hosts:?} {destination}");
        let judged = grant.may_connect(&to(destination), address.parse().unwrap());
        assert_eq!(judged, expected, "{hosts:?} {destination} {address}");
    }
}

/// `*` allows neither loopback nor plain TCP, so its intersection with such grants is empty.
#[test]
fn every_public_host_meets_names_alone() {
    let any = Grant::none().with_host(HostPattern::any());
    for (other, met) in [
        ("*", Some("*")),
        ("api.github.com", Some("api.github.com")),
        ("http://*.test:81", Some("http://*.test:81")),
        ("http://localhost:8080", None),
        ("http://127.0.0.1:80", None),
        ("1.1.1.1", None),
        ("[2606:4700::1111]", None),
    ] {
        let other = Grant::none().with_host(host(other));
        let met: Vec<_> = met.into_iter().map(host).collect();
        assert_eq!(any.intersect(&other).hosts(), met);
        assert_eq!(other.intersect(&any).hosts(), met);
    }
}

fn any_root() -> impl Strategy<Value = Root> {
    prop::collection::vec("[ab]", 0..4).prop_map(|parts| root(&format!("/nowhere/{}", parts.join("/"))))
}

fn any_host() -> impl Strategy<Value = HostPattern> {
    let named = "(http://)?((\\*\\.)?[ab](\\.[ab]){0,2}|localhost|127\\.0\\.0\\.1|1\\.1\\.1\\.1)(:[12])?";
    prop_oneof![1 => Just("*".to_owned()), 5 => named].prop_map(|text| host(&text))
}

prop_compose! {
    fn any_grant()(
        read in prop::collection::vec(any_root(), 0..3),
        write in prop::collection::vec(any_root(), 0..3),
        anywhere in any::<bool>(),
        env in prop::collection::vec("[AB]", 0..2),
        hosts in prop::collection::vec(any_host(), 0..3),
    ) -> Grant {
        let grant = if anywhere { Grant::none().with_read_anywhere() } else { Grant::none() };
        let grant = read.into_iter().fold(grant, Grant::with_read);
        let grant = write.into_iter().fold(grant, Grant::with_write);
        let grant = env.into_iter().fold(grant, Grant::with_env);
        hosts.into_iter().fold(grant, Grant::with_host)
    }
}

proptest! {
    /// Neither side of an intersection may do less than the result.
    #[test]
    fn meet_never_widens(a in any_grant(), b in any_grant(), probe in any_root(), name in "[ab](\\.[ab]){0,3}|localhost|127\\.0\\.0\\.1|1\\.1\\.1\\.1") {
        let met = a.intersect(&b);
        let destination = to(&format!("http://{name}:1"));
        for side in [&a, &b] {
            prop_assert!(!met.writable().covers(&probe) || side.writable().covers(&probe));
            prop_assert!(!met.readable().covers(&probe) || side.readable().covers(&probe));
            prop_assert!(met.env().is_subset(side.env()));
            prop_assert!(!met.may_ask(&destination) || side.may_ask(&destination));
            for address in ["127.0.0.1", "1.1.1.1"].map(|address| address.parse().unwrap()) {
                let reaches = |grant: &Grant| {
                    grant.may_ask(&destination) && grant.may_connect(&destination, address).is_ok()
                };
                prop_assert!(!reaches(&met) || reaches(side), "{met:?} reaches {address}");
                let by_tcp = |grant: &Grant| grant.hosts().iter().any(|host| host.is_address((address, 1).into()));
                prop_assert!(!by_tcp(&met) || by_tcp(side), "{met:?} speaks TCP to {address}");
            }
        }
    }

    /// The intersection of a grant with itself is the grant.
    #[test]
    fn meet_with_itself_keeps_everything(a in any_grant(), probe in any_root()) {
        let met = a.intersect(&a);
        prop_assert_eq!(met.writable().covers(&probe), a.writable().covers(&probe));
        prop_assert_eq!(met.readable().covers(&probe), a.readable().covers(&probe));
    }
}

/// Single hosts narrow the complete network and each other, and open no closed host.
#[test]
fn meet_keeps_the_narrower_hosts_of_processes() {
    let with = |hosts: &[&str]| {
        hosts.iter().fold(Grant::none(), |grant, host| grant.with_host(host.parse().unwrap())).of_process()
    };
    let shown = |grant: &Grant| grant.child_hosts().iter().map(ToString::to_string).collect::<Vec<_>>();
    let (open, some, closed) = (with(&["*"]), with(&["a.test", "*.b.test"]), with(&[]));
    assert!(open.network() && !some.network() && some.hosts().is_empty());
    for met in [open.intersect(&some), some.intersect(&open), some.intersect(&some)] {
        assert!(!met.network() && shown(&met) == ["a.test", "*.b.test"]);
    }
    assert_eq!(shown(&some.intersect(&with(&["x.b.test", "c.test"]))), ["x.b.test"]);
    for met in [closed.intersect(&some), closed.intersect(&open), some.planning(), open.planning()] {
        assert!(!met.network() && shown(&met).is_empty());
    }
    assert!(open.intersect(&open).network() && shown(&with(&["*", "a.test"])).is_empty());
}

/// Closed paths stay closed, and child processes may reach what both sides allow.
#[test]
fn meet_keeps_what_either_closes() {
    let open = Grant::none().with_network(true).with_unix_sockets(true);
    let asked = open.clone().with_hidden(root("/nowhere/keys"));
    let met = asked.intersect(&open.with_unix_sockets(false).with_fixed(root("/nowhere/program.toml")));
    assert!(met.hidden().eq(&[root("/nowhere/keys")]));
    assert!(met.fixed().eq(&[root("/nowhere/program.toml")]));
    assert!(met.network() && !met.unix_sockets());
    assert!(met.read_only().hidden().eq(met.hidden()));
    assert!(Grant::none().intersect(&asked).hidden().eq(met.hidden()));
}

#[test]
fn a_directory_is_opened_and_never_behind_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(place.join("a/b")).unwrap();
    std::os::unix::fs::symlink("a", place.join("link")).unwrap();
    let opened = |path: &str| open_without_links(&place.join(path));
    assert!(opened("a/b").unwrap().metadata().unwrap().is_dir());
    assert!(opened("link/b").is_err() && opened("link").is_err());
    assert_eq!(opened("a/c").unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
