//! Tool names for the functions of a component: the WIT name, prefixed by the interface only where two would collide.
//! The same component always gets the same names.

use std::collections::HashMap;

use haft_core::tool::exposed_name;

/// How much of where a function comes from its name may say, from nothing to everything.
const LEVELS: usize = 5;

/// The names of functions, given as interface (with package and version; none for the world's own)
/// and function.
pub(super) fn unique_names(functions: &[(Option<&str>, &str)]) -> Vec<String> {
    let mut levels = vec![0; functions.len()];
    for _ in 1..LEVELS {
        let names = named(functions, &levels);
        let mut count: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            *count.entry(name).or_default() += 1;
        }
        let mut is_unique = true;
        for ((name, level), (interface, _)) in names.iter().zip(&mut levels).zip(functions) {
            // A function of the world itself has nowhere else to come from.
            if interface.is_some() && count.get(name.as_str()).is_some_and(|count| *count > 1) {
                (*level, is_unique) = (*level + 1, false);
            }
        }
        if is_unique {
            break;
        }
    }
    named(functions, &levels)
}

fn named(functions: &[(Option<&str>, &str)], levels: &[usize]) -> Vec<String> {
    let name = |((interface, function), level): (&(Option<&str>, &str), &usize)| {
        let origin = interface.and_then(|interface| origin(interface, *level));
        match origin {
            Some(origin) => exposed_name(&[&origin, function]),
            None => exposed_name(&[function]),
        }
    };
    functions.iter().zip(levels).map(name).collect()
}

/// What a name says of an interface: `geometry`, `shapes-geometry`, `acme-shapes-geometry`, and the
/// whole of it, which becomes a hash.
fn origin(interface: &str, level: usize) -> Option<String> {
    let (path, _version) = interface.split_once('@').unwrap_or((interface, ""));
    let (package, short) = path.rsplit_once('/').unwrap_or(("", path));
    let (namespace, package) = package.rsplit_once(':').unwrap_or(("", package));
    let join = |parts: &[&str]| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        parts.join("-")
    };
    match level {
        0 => None,
        1 => Some(short.to_owned()),
        2 => Some(join(&[package, short])),
        3 => Some(join(&[namespace, package, short])),
        _ => Some(interface.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_comes_between_only_where_two_would_collide() {
        let names = unique_names(&[
            (Some("acme:shapes/circle@1.0.0"), "area"),
            (Some("acme:shapes/square@1.0.0"), "area"),
            (Some("acme:shapes/square@1.0.0"), "corner-count"),
            (None, "area"),
            (None, "draw"),
        ]);
        assert_eq!(names, ["circle__area", "square__area", "corner-count", "area", "draw"]);
    }

    #[test]
    fn what_collides_all_the_same_says_more() {
        let names = unique_names(&[(Some("acme:shapes/circle"), "area"), (Some("acme:maps/circle"), "area")]);
        assert_eq!(names, ["shapes-circle__area", "maps-circle__area"]);
        let names =
            unique_names(&[(Some("acme:shapes/circle"), "area"), (Some("other:shapes/circle"), "area")]);
        assert_eq!(names, ["acme-shapes-circle__area", "other-shapes-circle__area"]);
        let names = unique_names(&[(Some("a:b/c@1.0.0"), "f"), (Some("a:b/c@2.0.0"), "f")]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| exposed_name(&[name]) == *name), "{names:?}");
    }

    #[test]
    fn long_names_are_shortened_and_stay_apart() {
        let (one, two) = ("x".repeat(100) + "a", "x".repeat(100) + "b");
        let names = unique_names(&[(None, &one), (None, &two)]);
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() <= 64));
    }
}
