//! Malicious packages: each is refused with a reason, and leaves no file.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::thread;

use super::place::{Place, program, wordcount};
use crate::http::server::Server;

/// A tar archive made by hand, because an ordinary tool does not write such archives.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn add(mut self, name: &str, kind: u8, link: &str, data: &[u8]) -> Self {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        header[156] = kind;
        header[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(header);
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, data: &[u8]) -> Self {
        self.add(name, b'0', "", data)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

/// A valid package, to which the cases add their faults.
fn good() -> Tar {
    let text = program("evil", "1.0.0", "[[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"");
    Tar::default().file("program.toml", text.as_bytes()).file("w.wasm", &wordcount())
}

/// PR08: a hostile archive leaves no file in the store, the program's folder or the home.
#[test]
fn hostile_archives_leave_nothing() {
    let place = Place::new();
    let zeros = vec![0; 1 << 20];
    let many = (0..10_001).fold(good(), |tar, number| tar.file(&format!("f{number}"), b""));
    let bomb = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&good().end()).unwrap();
        (0..300).for_each(|_| encoder.write_all(&zeros).unwrap());
        encoder.finish().unwrap()
    };
    let cut = good().end()[..2000].to_vec();
    let named = |name: &str| program(name, "1.0.0", "[[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("is an absolute path", good().file("/tmp/evil", b"x").end()),
        ("is outside the package", good().file("../evil", b"x").end()),
        ("is outside the package", good().file("a/../../evil", b"x").end()),
        ("is a symbolic link", good().add("link", b'2', "/etc/passwd", b"").end()),
        ("is a symbolic link", good().add("link", b'2', "..", b"").file("link/evil", b"x").end()),
        ("is a hard link", good().add("link", b'1', "program.toml", b"").end()),
        ("is a device", good().add("device", b'3', "", b"").end()),
        ("is a named pipe", good().add("pipe", b'6', "", b"").end()),
        ("occurs twice", good().file("w.wasm", b"x").end()),
        ("occurs twice", good().file("W.wasm", b"x").end()),
        ("` has characters that are not allowed in file names", good().file("a\x1b]0;evil\x07", b"x").end()),
        ("` has characters that are not allowed in file names", good().file("a\\b", b"x").end()),
        ("haft writes", good().file("program.lock", b"version = 1\n").end()),
        ("more than 10000 files", many.end()),
        ("the archive has more than", bomb),
        ("the archive cannot be read", cut),
        ("no `program.toml` or `plugin.json` at the top", Tar::default().file("w.wasm", b"x").end()),
        ("'.' is not allowed", Tar::default().file("program.toml", named("../../evil").as_bytes()).end()),
        ("'/' is not allowed", Tar::default().file("program.toml", named("/etc").as_bytes()).end()),
        ("is not a file of the package", Tar::default().file("program.toml", named("evil").as_bytes()).end()),
    ];
    let before = place.everything();
    for (reason, bytes) in cases {
        fs::write(place.home().join("evil.tar.gz"), bytes).unwrap();
        let answer = place.haft(&["add", "../evil.tar.gz", "--yes"]).ends(5, reason);
        assert!(!answer.stderr.contains(['\x1b', '\x07']), "{:?}", answer.stderr);
        assert_eq!(place.everything(), before, "{reason}");
        assert!(!place.home().join("evil").exists() && !place.work().join("evil").exists());
    }
}

type Spoil<'a> = &'a dyn Fn();

/// PR08: a hostile folder leaves no file; haft refuses special files and follows no link.
#[test]
fn hostile_folders_leave_nothing() {
    let place = Place::new();
    let text = program("evil", "1.0.0", "[[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"");
    let folder = place.home().join("evil");
    let fresh = || {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("program.toml"), &text).unwrap();
        fs::write(folder.join("w.wasm"), wordcount()).unwrap();
    };
    let link_file = || symlink("/etc/passwd", folder.join("passwd")).unwrap();
    let link_folder = || symlink("/etc", folder.join("etc")).unwrap();
    let link_component = || {
        fs::rename(folder.join("w.wasm"), place.home().join("real.wasm")).unwrap();
        symlink("../real.wasm", folder.join("w.wasm")).unwrap();
    };
    let link_nowhere = || symlink("nowhere", folder.join("x")).unwrap();
    let pipe = || {
        let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), kind, mode, 0).unwrap();
    };
    let socket = || drop(std::os::unix::net::UnixListener::bind(folder.join("s")).unwrap());
    let capitals = || fs::write(folder.join("W.wasm"), "x").unwrap();
    let control = || fs::write(folder.join("a\u{1b}[2J"), "x").unwrap();
    let large = || fs::File::create(folder.join("large")).unwrap().set_len(300 << 20).unwrap();
    let deep = || fs::create_dir_all(folder.join("d/".repeat(40))).unwrap();
    let elsewhere =
        || fs::write(folder.join("program.toml"), text.replace("w.wasm", "../work/w.wasm")).unwrap();
    let none = || fs::remove_file(folder.join("program.toml")).unwrap();
    let cases: &[(&str, Spoil<'_>)] = &[
        ("`passwd` is a symbolic link", &link_file),
        ("`etc` is a symbolic link", &link_folder),
        ("`w.wasm` is a symbolic link", &link_component),
        ("`x` is a symbolic link", &link_nowhere),
        ("`pipe` is a named pipe", &pipe),
        ("`s` is a socket", &socket),
        ("occurs twice", &capitals),
        ("` has characters that are not allowed in file names", &control),
        ("its files have more than 256 MiB", &large),
        ("is too long", &deep),
        ("is not a file of the package", &elsewhere),
        ("no `program.toml` or `plugin.json` in", &none),
    ];
    place.write("w.wasm", wordcount());
    let before = place.everything();
    for (reason, spoil) in cases {
        fresh();
        spoil();
        let answer = place.haft(&["add", "../evil", "--yes"]).ends(5, reason);
        assert!(!answer.stderr.contains('\x1b'), "{:?}", answer.stderr);
        assert_eq!(place.everything(), before, "{reason}");
    }
}

/// CL04, WA08: the disclosure shows a package's texts without control characters, and the description on one line.
#[test]
fn the_page_obeys_nothing_and_hides_nothing() {
    let place = Place::new();
    let more = "description = \"nice\\u001b[2J\\u001b[31m\\nrequests  no rights\\u202e\"\nauthors = [\"\\u0007\"]\n\
        [[tools]]\nname = \"t\"\ndescription = \"d\\u001b]0;x\\u0007\"\ncommand = [\"sh\", \"-c\", \"echo \\u001b[8m; rm -rf ~\"]\n";
    place.write("evil/program.toml", program("evil", "1.0.0", more));
    let answer = place.haft(&["add", "./evil"]);
    let odd = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{9b}');
    assert!(!answer.stderr.contains(odd), "{:?}", answer.stderr);
    assert!(answer.stderr.contains("rm -rf ~"), "{}", answer.stderr);
    let first = answer.stderr.lines().next().unwrap();
    assert!(first.starts_with("evil 1.0.0: nice") && first.contains("requests  no rights"), "{first}");
}

/// PR08: haft refuses invalid redirects and answers of a server, and shows no secret of a URL.
#[test]
fn hostile_servers_leave_nothing() {
    let place = Place::new();
    let server = Server::at("127.0.0.1:0", move |head, stream| {
        let path = head.split([' ', '?']).nth(1).unwrap_or_default();
        let to = |to: &str| {
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
        };
        let answer = match path {
            "/plain" => to("http://example.com/x.wasm"),
            "/file" => to("file:///etc/passwd"),
            "/user" => to("http://user:secret@127.0.0.1/x"),
            "/nowhere" => b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
            "/round" => to("/round"),
            "/huge" => b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n".to_vec(),
            "/page" => {
                b"HTTP/1.1 200 OK\r\ncontent-type: application/wasm\r\ncontent-length: 6\r\n\r\n<html>"
                    .to_vec()
            }
            "/gone" => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
            "/chunks" => {
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n\0asm\x0d\r\nzz\r\n".to_vec()
            }
            _ => b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_vec(),
        };
        let _ = stream.write_all(&answer);
    });
    let before = place.everything();
    for (path, reason) in [
        ("/plain", "which is neither `https` nor on this machine"),
        ("/file", "which is neither `https` nor on this machine"),
        ("/user", "with a user name in it"),
        ("/nowhere", "without a target"),
        ("/round", "redirects more than 5 times"),
        ("/huge", "is larger than 268435456 bytes"),
        ("/page", "is neither a WebAssembly component nor a tar archive"),
        ("/gone", "the server answered 404 Not Found"),
        ("/chunks", "cannot fetch"),
        ("/else", "the server answered 500"),
    ] {
        let url = format!("{}{path}?token=hidden-4711", server.url());
        let answer = place.haft(&["add", &url, "--yes"]).ends(5, reason);
        let errors = answer.stderr.lines().filter(|line| line.starts_with("error")).collect::<String>();
        assert!(!errors.contains("hidden-4711") && !errors.contains("secret"), "{errors}");
        assert_eq!(place.everything(), before, "{path}");
    }
    place.haft(&["add", "http://example.com/x.wasm", "--yes"]).ends(5, "is code: use `https://`");
}

/// PR08: haft refuses a body that is shorter than its declared length.
#[test]
fn a_truncated_body_is_refused() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/w.wasm", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n";
            let _ = stream.write_all(&[head, &wordcount()[..9000]].concat());
        }
    });
    let before = place.everything();
    place.haft(&["add", &url, "--yes"]).ends(5, "cannot fetch `http://127.0.0.1");
    assert_eq!(place.everything(), before);
}

/// PR07, PR08: a source cannot pass options to git or select another protocol.
#[test]
fn git_gets_names_and_never_options() {
    let place = Place::new();
    let before = place.everything();
    for (source, reason) in [
        ("git+https://example.com/x@--upload-pack=touch evil", "expected a branch, a tag or a commit"),
        ("git+ssh://example.com/x", "clone a private repository yourself"),
        ("git@example.com:x.git", "clone a private repository yourself"),
        ("git+ext::sh -c touch% evil", "cannot look at"),
    ] {
        place.haft(&["add", source, "--yes"]).ends(5, reason);
        assert_eq!(place.everything(), before, "{source}");
    }
}
