"""The log on disk: entries, the vote and snapshots, durable before anybody hears of them."""
