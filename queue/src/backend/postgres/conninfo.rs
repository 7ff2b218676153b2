//! Time limits on silence, added to a connection string where it states none: libpq has no limits of its own, and a
//! connection whose other end is gone would be waited for without end.

const LIMITS: [(&str, &str); 6] = [
    ("connect_timeout", "10"),
    ("keepalives", "1"),
    ("keepalives_idle", "20"),
    ("keepalives_interval", "5"),
    ("keepalives_count", "3"),
    // Milliseconds, unlike the others.
    ("tcp_user_timeout", "30000"),
];

/// The connection string with the limits, for both forms that libpq takes: a URL, or `key=value` pairs.
pub(super) fn with_limits(conninfo: &str) -> String {
    let is_url = ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| conninfo.starts_with(scheme));
    let stated = if is_url {
        url_keys(conninfo)
    } else {
        pair_keys(conninfo)
    };
    let mut text = conninfo.to_owned();
    for (key, value) in LIMITS
        .into_iter()
        .filter(|(key, _)| !stated.iter().any(|stated| stated == key))
    {
        match is_url {
            false if text.is_empty() => {}
            false => text.push(' '),
            true if query(&text).is_none() => text.push('?'),
            true if text.ends_with(['?', '&']) => {}
            true => text.push('&'),
        }
        text.push_str(key);
        text.push('=');
        text.push_str(value);
    }
    text
}

/// What follows the question mark. A password may hold one, too, so user and password are stepped over first.
fn query(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.find('/').unwrap_or(rest.len());
    let host = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    rest[host..].split_once('?').map(|(_, query)| query)
}

fn url_keys(url: &str) -> Vec<String> {
    let pairs = query(url).unwrap_or_default().split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, _)| key.to_owned())
        .collect()
}

/// The keys of `key = 'quoted value' key=value`, by libpq's rules.
fn pair_keys(conninfo: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = conninfo;
    while let Some((key, after)) = rest.split_once('=') {
        keys.push(key.trim().to_owned());
        let value = after.trim_start();
        let quoted = value.starts_with('\'');
        let mut escaped = false;
        let end = value.char_indices().skip(usize::from(quoted)).find(|(_, c)| {
            let ends = !escaped && if quoted { *c == '\'' } else { c.is_ascii_whitespace() };
            escaped = !escaped && *c == '\\';
            ends
        });
        rest = end.map_or("", |(at, _)| &value[at + 1..]);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "connect_timeout=10 keepalives=1 keepalives_idle=20 keepalives_interval=5 keepalives_count=3 tcp_user_timeout=30000";

    #[test]
    fn limits_are_added_to_both_forms() {
        let query = ALL.replace(' ', "&");
        assert_eq!(with_limits(""), ALL);
        assert_eq!(with_limits("host=/tmp dbname=a"), format!("host=/tmp dbname=a {ALL}"));
        assert_eq!(
            with_limits("postgres://u:p@h/db"),
            format!("postgres://u:p@h/db?{query}")
        );
        assert_eq!(
            with_limits("postgresql://h/db?sslmode=require"),
            format!("postgresql://h/db?sslmode=require&{query}")
        );
        assert_eq!(with_limits("postgresql:///db?"), format!("postgresql:///db?{query}"));
    }

    #[test]
    fn a_stated_limit_stays() {
        let url = with_limits("postgres://h/db?connect_timeout=3&tcp_user_timeout=0");
        assert!(
            url.starts_with("postgres://h/db?connect_timeout=3&tcp_user_timeout=0&keepalives=1&"),
            "{url}"
        );
        assert_eq!(url.matches("connect_timeout").count(), 1);
        let pairs = with_limits("host = h connect_timeout = '3'");
        assert!(
            pairs.starts_with("host = h connect_timeout = '3' keepalives=1 "),
            "{pairs}"
        );
    }

    #[test]
    fn passwords_are_no_settings() {
        let url = with_limits("postgres://u:a?connect_timeout=1@h/db");
        assert!(
            url.starts_with("postgres://u:a?connect_timeout=1@h/db?connect_timeout=10&"),
            "{url}"
        );
        let pairs = with_limits(r"password='it\'s connect_timeout=1' user=a\ connect_timeout=1");
        assert!(pairs.ends_with(ALL), "{pairs}");
    }
}
