"""SoccerNet: commentary of football matches -> timelines of play-by-play."""
