"""From a config.json to the ordered ops of one forward."""
