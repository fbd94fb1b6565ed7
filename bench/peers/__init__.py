"""The peers that we measure ourselves against, each in its best mode with one worker process."""
