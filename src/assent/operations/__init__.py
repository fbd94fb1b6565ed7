"""What operators ask and repair: health, queues, stuck instances, dead letters."""
